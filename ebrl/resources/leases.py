"""Who holds what of one machine. Pure: a plan, or a change of plan, leases before anything is started or moved.

Dask counts a worker's resources only when it places a task, and knows no device's memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

import attrs

from ebrl.errors import PlanError
from ebrl.resources.pool import ResourcePool
from ebrl.resources.topology import core_ranges

WHOLE_PERCENT = 100.0
_ROUNDING_PERCENT = 1e-6
"""Shares such as 3 x 33.333 may exceed a device by what floating point makes of them."""


@attrs.define(frozen=True, kw_only=True, eq=False)
class Lease:
    """What one holder has, until it is released. Two leases of the same size are different ones."""

    holder: str
    """Such as ``simulate-0``."""
    cores: tuple[int, ...] = ()
    """Core ids that nobody else has."""
    shared_cores: tuple[int, ...] = ()
    """Core ids that any number of other leases may share."""
    sm_percent: Mapping[str, float] = attrs.field(factory=dict)
    """Per cent of the streaming multiprocessors, by UUID of the device."""
    device_memory_mib: Mapping[str, int] = attrs.field(factory=dict)
    memory_mib: int = 0
    """Host memory."""


class Ledger:
    """Capacities of one machine, each apart from the others, and the leases that fill them. Not thread-safe."""

    def __init__(
        self, *, cores: Iterable[int], device_memory_mib: Mapping[str, int | None], memory_mib: int | None = None
    ) -> None:
        """device_memory_mib: of every device by UUID. None is memory of unknown size, which has no end."""
        self._cores = frozenset(cores)
        self._device_memory_mib = dict(device_memory_mib)
        self._memory_mib = memory_mib
        self._leases: list[Lease] = []

    @classmethod
    def of(cls, pool: ResourcePool) -> Ledger:
        memory = {gpu.uuid: gpu.memory_mib for gpu in pool.gpus}
        return cls(cores=pool.cores, device_memory_mib=memory, memory_mib=pool.memory_mib)

    @property
    def leases(self) -> tuple[Lease, ...]:
        """In the order in which they were given."""
        return tuple(self._leases)

    def lease(
        self,
        holder: str,
        *,
        cores: Iterable[int] = (),
        shared_cores: Iterable[int] = (),
        sm_percent: Mapping[str, float] | None = None,
        device_memory_mib: Mapping[str, int] | None = None,
        memory_mib: int = 0,
    ) -> Lease:
        """Give all of this to `holder`.

        Raises PlanError, which names the holders and what is left, where one thing is not free, does not exist or
        is less than nothing; then nothing was given.
        """
        wanted = Lease(
            holder=holder,
            cores=tuple(cores),
            shared_cores=tuple(shared_cores),
            sm_percent=dict(sm_percent or {}),
            device_memory_mib=dict(device_memory_mib or {}),
            memory_mib=memory_mib,
        )
        self._check_cores(wanted)
        for uuid, percent in wanted.sm_percent.items():
            self._check_amount(wanted, f"% of the SMs of {uuid}", percent, self._sms(uuid), self._left_sms(uuid))
        for uuid, mib in wanted.device_memory_mib.items():
            what = f" MiB of the memory of {uuid}"
            self._check_amount(wanted, what, mib, self._device_memory(uuid), self.device_memory_left_mib(uuid))
        self._check_amount(wanted, " MiB of memory", memory_mib, self._memory(), self.memory_left_mib)
        self._leases.append(wanted)
        return wanted

    def release(self, lease: Lease) -> None:
        """Take back all of a lease. Raises PlanError where it is not, or no longer, one of this ledger."""
        if lease not in self._leases:
            raise PlanError(f"{lease.holder} holds no such lease", hint="a lease is released once, where it was given")
        self._leases.remove(lease)

    # What is left

    @property
    def free_cores(self) -> tuple[int, ...]:
        """Cores that nobody holds, ascending."""
        held = {core for lease in self._leases for core in (*lease.cores, *lease.shared_cores)}
        return tuple(sorted(self._cores - held))

    @property
    def memory_left_mib(self) -> float:
        """Host memory; infinite where its size is unknown."""
        return _left(self._memory_mib, self._memory().values())

    def device_memory_left_mib(self, uuid: str) -> float:
        """Memory of a device; infinite where its size is unknown. Raises PlanError for an unknown device."""
        return _left(self._device(uuid), self._device_memory(uuid).values())

    def sm_percent_left(self, uuid: str) -> float:
        """Raises PlanError for an unknown device."""
        self._device(uuid)
        return max(0.0, self._left_sms(uuid))

    # Checks

    def _check_cores(self, wanted: Lease) -> None:
        asked = [*wanted.cores, *wanted.shared_cores]
        if unknown := sorted(set(asked) - self._cores):
            self._refuse(wanted, f"core {core_ranges(unknown)}", f"this machine offers {core_ranges(self._cores)}")
        if twice := sorted({core for core in asked if asked.count(core) > 1}):
            self._refuse(wanted, f"core {core_ranges(twice)} twice", "name every core once")
        for core in asked:
            exclusive = core in wanted.cores
            if holders := [
                lease.holder
                for lease in self._leases
                if core in lease.cores or (exclusive and core in lease.shared_cores)
            ]:
                free = f"free: {core_ranges(self.free_cores)}"
                self._refuse(wanted, f"core {core}{' alone' if exclusive else ''}", f"held by {_and(holders)}; {free}")

    def _check_amount(self, wanted: Lease, what: str, amount: float, held: Mapping[str, float], left: float) -> None:
        """`held`: by holder. Rounding is forgiven where percentages are summed, never in whole MiB."""
        if not (math.isfinite(amount) and amount >= 0):
            self._refuse(wanted, f"{amount}{what}", "an amount is 0 or more")
        if amount > left:
            holders = f"{_and(f'{name} has {size:g}' for name, size in held.items())}; " if held else ""
            self._refuse(wanted, f"{amount:g}{what}", f"{holders}left: {max(0.0, left):g}")

    def _refuse(self, wanted: Lease, what: str, why: str) -> None:
        raise PlanError(f"{wanted.holder} cannot have {what}: {why}", hint="release it there first, or ask for less")

    # Sums

    def _device(self, uuid: str) -> int | None:
        if uuid not in self._device_memory_mib:
            known = ", ".join(self._device_memory_mib) or "none"
            raise PlanError(f"there is no device {uuid} to lease", hint=f"devices of this machine: {known}")
        return self._device_memory_mib[uuid]

    def _left_sms(self, uuid: str) -> float:
        return WHOLE_PERCENT + _ROUNDING_PERCENT - math.fsum(self._sms(uuid).values())

    def _sms(self, uuid: str) -> dict[str, float]:
        self._device(uuid)
        return _by_holder((lease.holder, lease.sm_percent.get(uuid, 0.0)) for lease in self._leases)

    def _device_memory(self, uuid: str) -> dict[str, float]:
        return _by_holder((lease.holder, lease.device_memory_mib.get(uuid, 0)) for lease in self._leases)

    def _memory(self) -> dict[str, float]:
        return _by_holder((lease.holder, lease.memory_mib) for lease in self._leases)


def _left(capacity: int | None, held: Iterable[float]) -> float:
    return math.inf if capacity is None else capacity - sum(held)


def _by_holder(amounts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Sums; who holds nothing is left out."""
    ordered = sorted(amounts)
    sums = {name: math.fsum(size for _, size in group) for name, group in itertools.groupby(ordered, lambda it: it[0])}
    return {name: size for name, size in sums.items() if size}


def _and(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))
