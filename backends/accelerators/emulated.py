"""Emulated machines: cores and devices that do not exist, for plans and schedules of a cluster on a laptop.

What works there does not compute: it takes the time that a profile says of its share, see
`ebrl.backends.policies.emulated` and ``emulated:`` simulators.
"""

from __future__ import annotations

import attrs

from ebrl.backends.protocols import LIVE, Device, Granularity, Share, Unavailable
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool

_PREFIX = "EMULATED-"

_applied: dict[str, Share] = {}  # of this process, by device


def emulated(pool: ResourcePool) -> ResourcePool:
    """A machine with so many cores and such devices that a run can be given, wherever it runs:
    ``ebrl.launch(graph, resources=emulated(machine("8xH100,56c")))``. Nobody is bound to its cores."""
    gpus = tuple(attrs.evolve(gpu, uuid=f"{_PREFIX}{index}", index=index) for index, gpu in enumerate(pool.gpus))
    return attrs.evolve(pool, gpus=gpus, pinning=False, cpu_quota=None)


def emulated_gpus(count: int, sm_count: int = 132, memory_mib: int = 80 * 1024) -> tuple[Gpu, ...]:
    """Devices that do not exist, for ``attrs.evolve(pool, gpus=emulated_gpus(2))``."""
    return tuple(
        Gpu(
            uuid=f"{_PREFIX}{index}",
            index=index,
            name="emulated",
            memory_mib=memory_mib,
            compute_capability=(9, 0),
            sm_count=sm_count,
        )
        for index in range(count)
    )


class Emulated:
    """Serves devices of `emulated` and `emulated_gpus`, in whole SMs. Every process has its own share of a device."""

    change = LIVE
    within_process = False
    enforced = True

    def available(self, device: Device | None) -> Unavailable | None:
        if device is not None and device.uuid.startswith(_PREFIX):
            return None
        return Unavailable("the device is not an emulated one")

    def granularity(self, device: Device | None) -> Granularity:
        return Granularity(1, "SMs")

    def round(self, percent: float, device: Device | None) -> float:
        sms = 100 if device is None or device.sm_count is None else device.sm_count
        return min(100.0, max(1, round(percent * sms / 100)) * 100 / sms)

    def environment(self, share: Share) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": ""}

    def apply(self, share: Share) -> None:
        _applied[share.device] = share


def applied() -> tuple[Share, ...]:
    """The shares that this process has, one of each of its devices."""
    return tuple(_applied.values())
