"""Emulated devices: shares that change what emulated work costs. For machines without a GPU, and for tests."""

from __future__ import annotations

import os

from ebrl.backends.protocols import LIVE, Device, Granularity, Share, Unavailable
from ebrl.resources.gpus import Gpu

SHARE = "EBRL_EMULATED_SM_PERCENT"
"""Environment variable with the share that a process starts with, in per cent."""
_PREFIX = "EMULATED-"

_applied: list[Share] = []  # of this process


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
    """Serves devices of `emulated_gpus`, in whole SMs. Every process has its own share of a device."""

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
        return {"CUDA_VISIBLE_DEVICES": "", SHARE: repr(share.sm_percent)}

    def apply(self, share: Share) -> None:
        _applied.append(share)


def applied() -> tuple[Share, ...]:
    """The shares that were applied in this process, in order."""
    return tuple(_applied)


def cost_s(whole_s: float) -> float:
    """Seconds that emulated work takes with the present share, where it takes `whole_s` with a whole device."""
    return whole_s * 100 / (_applied[-1].sm_percent if _applied else float(os.environ.get(SHARE, "100")))
