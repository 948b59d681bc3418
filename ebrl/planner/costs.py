"""What a stage costs: measured calls over quota and batch size, interpolated between the measured points."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import attrs

CPU = "cpu"
"""The resource whose quota is a number of cores; any other one is a device model, whose quota is percent of its SMs."""


@attrs.define(frozen=True, kw_only=True)
class Point:
    """One measured cost: a call with `batch` chunk-steps under `quota`."""

    quota: float
    """Cores (threads of one process), or percent of a device's SMs."""
    batch: int
    """Chunk-steps of one call: observations of a generation, chunks of one training iteration, 1 for simulation."""
    seconds: float
    """Duration of the call."""
    core_s: float
    """CPU time of all its threads: what it takes from the cores that stages share."""
    memory_mib: float = 0.0
    """Peak on the device."""


@attrs.define(frozen=True, kw_only=True, slots=False)
class CostTable:
    """The costs of one stage on one kind of resource.

    Between batches the duration of a call is linear, as fixed cost plus cost per item; beyond the largest measured
    batch it goes on with the last slope. Between quotas speed (calls per second) is linear; below the smallest
    measured quota it is proportional to the quota and above the largest it is flat. More quota never makes a
    stage slower in the table, since it could leave the rest unused; noise in a profile could say so.
    """

    points: tuple[Point, ...]
    correction: float = 1.0
    """What the running system measured over what the points say."""

    def __attrs_post_init__(self) -> None:
        if not self.points:
            raise ValueError("a cost table needs at least one point")
        for point in self.points:
            if point.quota <= 0 or point.batch < 1 or point.seconds <= 0 or point.core_s < 0:
                raise ValueError(f"no cost: {point}")

    @property
    def quotas(self) -> tuple[float, ...]:
        return tuple(self._rows)

    @property
    def batches(self) -> tuple[int, ...]:
        return tuple(sorted({point.batch for point in self.points}))

    def seconds(self, quota: float, batch: int) -> float:
        """Expected duration of a call; infinite without a quota."""
        if quota <= 0:
            return float("inf")
        quotas = self.quotas
        speeds, best = [], 0.0
        for row in self._rows.values():
            best = max(best, 1.0 / _along(row, batch, "seconds"))
            speeds.append(best)
        if quota <= quotas[0]:
            return self.correction * quotas[0] / (quota * speeds[0])
        return self.correction / _between(quotas, speeds, min(quota, quotas[-1]))

    def rate(self, quota: float, batch: int) -> float:
        """Chunk-steps per second of one replica that does nothing else."""
        return batch / self.seconds(quota, batch)

    def core_s(self, quota: float, batch: int) -> float:
        """Expected CPU time of a call."""
        values = [_along(row, batch, "core_s") for row in self._rows.values()]
        inside = min(max(quota, self.quotas[0]), self.quotas[-1])
        return self.correction * _between(self.quotas, values, inside)

    def memory_mib(self, batch: int) -> float:
        """Device memory of a replica that serves such batches, under any quota."""
        return max(_along(row, batch, "memory_mib") for row in self._rows.values())

    def corrected(self, ratio: float) -> CostTable:
        """The table where everything takes `ratio` times as long as now."""
        return attrs.evolve(self, correction=self.correction * ratio)

    def with_more(self, core_s: float) -> CostTable:
        """The table where every call has so much more CPU time to spend on its quota of cores."""
        each_s = core_s / self.correction
        points = (
            attrs.evolve(point, seconds=point.seconds + each_s / point.quota, core_s=point.core_s + each_s)
            for point in self.points
        )
        return attrs.evolve(self, points=tuple(points))

    @cached_property
    def _rows(self) -> dict[float, tuple[Point, ...]]:
        rows: dict[float, list[Point]] = {}
        for point in sorted(self.points, key=lambda point: (point.quota, point.batch)):
            rows.setdefault(point.quota, []).append(point)
        return {quota: tuple(row) for quota, row in rows.items()}


@attrs.define(frozen=True, kw_only=True)
class StageCosts:
    """The tables of one stage, by resource: ``cpu`` or the model of a device."""

    tables: dict[str, CostTable]

    def on(self, resource: str) -> CostTable | None:
        return self.tables.get(resource)

    def devices(self) -> tuple[str, ...]:
        return tuple(name for name in self.tables if name != CPU)

    def corrected(self, ratio: float) -> StageCosts:
        """Everything takes `ratio` times as long as now."""
        return StageCosts(tables={name: table.corrected(ratio) for name, table in self.tables.items()})

    def with_more(self, core_s: float) -> StageCosts:
        """On cores every call has so much more CPU time to spend."""
        table = self.on(CPU)
        return self if table is None else StageCosts(tables={**self.tables, CPU: table.with_more(core_s)})


def _along(row: Sequence[Point], batch: int, field: str) -> float:
    """Linear in the batch; a single point scales with the batch only in what it exceeds: it says nothing of smaller
    ones, whose cost is taken to be the same, and of larger ones, taken to cost in proportion."""
    batches = [point.batch for point in row]
    values = [float(getattr(point, field)) for point in row]
    if len(row) == 1:
        return values[0] * max(1.0, batch / batches[0]) if field != "memory_mib" else values[0]
    if batch <= batches[0]:
        return values[0]
    upper = min(bisect_right(batches, batch), len(row) - 1)
    slope = max(0.0, (values[upper] - values[upper - 1]) / (batches[upper] - batches[upper - 1]))
    return values[upper - 1] + slope * (batch - batches[upper - 1])


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    if len(xs) == 1:
        return ys[0]
    upper = min(max(bisect_right(xs, x), 1), len(xs) - 1)
    part = (x - xs[upper - 1]) / (xs[upper] - xs[upper - 1])
    return ys[upper - 1] + part * (ys[upper] - ys[upper - 1])
