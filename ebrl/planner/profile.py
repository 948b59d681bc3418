"""Profiles: what the stages of a workflow cost on one machine, as measured, and the file that keeps it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
from cattrs import Converter, transform_error

from ebrl.errors import UsageError
from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.problem import GENERATION, SIMULATION, TRAINING

SCHEMA = 3
P99 = 2.326
"""Of the standard normal distribution."""
_LASTING = ("episode", "episode_spread", "reset_s", "swap_s", "publish_s", "gather_s", "provenance")
"""What `ebrl profile` does not measure, or not of every part of a workflow."""
_STRAIGHT = 0.05
"""Where a point in the middle is that near to the line between its neighbours, nothing new is in between."""


@attrs.define(frozen=True, kw_only=True)
class Measured:
    """One point of a profile: a stage alone, under a quota, with batches of one size."""

    resource: str
    """``cpu`` or the model of a device."""
    quota: float
    """Cores, or percent of the device's SMs."""
    batch: int
    """Chunk-steps of one call."""
    rate: float
    """Chunk-steps per second."""
    mean_s: float
    """Latency of a call; of the simulation that of a chunk while all environments are busy."""
    p50_s: float
    p99_s: float
    seconds: float
    """What the planner reckons with: the median duration of a call."""
    core_s: float
    """CPU time of a call, of all threads and processes."""
    memory_mib: float
    """Peak of the process, or of the device where there is one."""
    calls: int
    spread: float | None = None
    """Of the logarithm of a call's duration; None where the latencies above tell it. Those of the simulation hold the
    time that environments wait for a core."""
    interval: float
    """Half of the 95 % confidence interval of the median, as a share of it."""

    def place(self, stage: str) -> str:
        """What the stage had: ``2 cores``, ``1 thread`` or ``50 % H100``."""
        if self.resource != CPU:
            return f"{self.quota:g} % {self.resource.removeprefix('NVIDIA ')}"
        return f"{self.quota:g} {'core' if stage == 'simulation' else 'thread'}{'' if self.quota == 1 else 's'}"

    def point(self) -> Point:
        return Point(
            quota=self.quota, batch=self.batch, seconds=self.seconds, core_s=self.core_s, memory_mib=self.memory_mib
        )


@attrs.define(frozen=True, kw_only=True)
class Profile:
    """The costs of one workflow on one machine."""

    schema: int = SCHEMA
    workflow: str
    machine: str
    """CPU model, cores and GPUs."""
    cores: int
    simulator: str
    policy: str
    """Backend and options of the policy: costs are those of this network."""
    versions: Mapping[str, str]
    created: str
    """Local time, ISO 8601."""
    environments: int
    chunk: int
    """Actions of one chunk."""
    iteration: int
    """Chunk-steps of one training iteration."""
    stages: Mapping[str, tuple[Measured, ...]]
    """``simulation``, ``generation`` and ``training``."""
    together: Mapping[str, float] = attrs.field(factory=dict)
    """Stage -> how many times the CPU time of a call it needs while all of them are at work: caches and memory are
    shared, messages and wake-ups come on top."""
    others_core_s: float = 0.0
    """CPU time of the remaining stages, the driver and the scheduler per chunk-step."""
    window: int = 1
    """Chunk-steps of a training iteration that one environment records in a row."""
    episode: float | None = None
    """Mean chunk-steps of an episode; None: not known, or it never ends."""
    episode_spread: float = 0.0
    """Lengths are spread evenly from episode * (1 - spread) to episode * (1 + spread)."""
    reset_s: float = 0.0
    """CPU time of a reset, of which the points of the simulation hold nothing."""
    swap_s: float = 0.0
    """For how long a device does nothing when it goes from one stage to another: one offloads, the other loads."""
    publish_s: float = 0.0
    """From the end of an iteration until generation has its weights."""
    gather_s: float = 0.0
    """From the end of a rollout until its training begins, where that has nothing else to do."""
    provenance: Mapping[str, str] = attrs.field(factory=dict)
    """Quantity -> ``published: ...``, ``derived: ...`` or ``assumed: ...``; what is not named was measured."""
    efficiency: float = 1.0
    """What the whole pipeline reached, as a share of what these costs predict for its plan: stages also wait for
    wake-ups and for one another, which is the cost of none."""

    def costs(self, stage: str) -> StageCosts:
        """The costs of ``simulation``, ``generation`` or ``training`` in a running pipeline; UsageError where that
        was not measured."""
        if not self.stages.get(stage):
            raise UsageError(
                f"the profile of {self.workflow} says nothing of the {stage}",
                hint=f"measure it, and the rest is kept: ebrl profile FILE --stage {stage}",
            )
        rows: dict[str, list[Point]] = {}
        for entry in self.stages[stage]:
            rows.setdefault(entry.resource, []).append(entry.point())
        ratio = self.together.get(stage, 1.0)
        return StageCosts(
            tables={name: CostTable(points=tuple(points), correction=ratio) for name, points in rows.items()}
        )

    def sigma(self, stage: str) -> float:
        """Spread of the logarithm of a call's duration, as if it were normal: the least that was measured, since others
        on the cores only add to it; else from median and P99, the median over all points; 0 where the stage was not
        measured."""
        points = self.stages.get(stage, ())
        if measured := [entry.spread for entry in points if entry.spread is not None]:
            return min(measured)
        found = sorted(math.log(entry.p99_s / entry.p50_s) / P99 for entry in points)
        return max(0.0, found[len(found) // 2]) if found else 0.0

    @property
    def gap_s(self) -> float:
        """For how long a core waits between two chunks: wall time that simulators alone spend beyond CPU time, with as
        many cores as were measured."""
        points = [entry for entry in self.stages.get(SIMULATION, ()) if entry.resource == CPU]
        if not points:
            return 0.0
        most = max(points, key=lambda entry: entry.quota)
        return max(0.0, most.quota * most.seconds - most.core_s)

    @property
    def file_name(self) -> str:
        return file_name(self.machine, self.simulator, self.policy)

    @property
    def missing(self) -> tuple[str, ...]:
        """Stages that were not measured."""
        return tuple(stage for stage in (SIMULATION, GENERATION, TRAINING) if not self.stages.get(stage))


def file_name(machine: str, simulator: str, policy: str) -> str:
    """``<machine>-<simulator>-<policy>.json``, without the options of the policy."""
    return f"{_slug(machine)}-{_slug(simulator)}-{_slug(policy.partition('(')[0])}.json"


def read_profile(path: Path) -> Profile:
    """The profile in a file; UsageError where it is none, or one of another schema."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the profile {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="make it again: ebrl profile") from None
    found = row.get("schema") if isinstance(row, dict) else None
    if found != SCHEMA:
        raise UsageError(
            f"{path} has the schema {found!r}, this ebrl reads {SCHEMA}", hint="make it again: ebrl profile"
        )
    try:
        profile = Converter(forbid_extra_keys=True).structure(row, Profile)
    except Exception as error:  # cattrs groups what it found
        detail = "\n".join(transform_error(error))
        raise UsageError(f"{path} is no profile", detail=detail, hint="make it again: ebrl profile") from None
    try:
        for stage in set(profile.stages) - set(profile.missing):
            profile.costs(stage)
    except ValueError as error:
        raise UsageError(f"{path} is no profile", detail=str(error), hint="make it again: ebrl profile") from None
    return profile


def doubts(profile: Profile, wanted: Profile | Mapping[str, object]) -> Iterator[str]:
    """Why `profile` may not hold for what is `wanted`: workflow, machine, simulator, policy, sizes and versions."""
    rows = attrs.asdict(wanted) if isinstance(wanted, Profile) else wanted
    for name in ("workflow", "machine", "cores", "simulator", "policy", "environments", "chunk", "iteration"):
        if name in rows and rows[name] != (measured := getattr(profile, name)):
            yield f"it was measured with {name} {measured}, here it is {rows[name]}"
    versions = rows.get("versions", {})
    assert isinstance(versions, Mapping)
    for package, version in profile.versions.items():
        if package in versions and versions[package] != version:
            yield f"it was measured with {package} {version}, here it is {versions[package]}"


def merged(kept: Profile, found: Profile) -> Profile:
    """`found`, and of the stages that it did not measure what `kept` says of the same machine and workflow."""
    if any(doubts(kept, found)):
        return found
    stages = {**kept.stages, **found.stages}
    efficiency = kept.efficiency if found.missing else found.efficiency
    lasting = {name: getattr(found, name) or getattr(kept, name) for name in _LASTING}
    together = {**kept.together, **found.together}
    return attrs.evolve(found, stages=stages, together=together, efficiency=efficiency, **lasting)


def explore(low: int, high: int, measure: Callable[[int], float]) -> dict[int, float]:
    """`measure` at `low`, `high`, and wherever between them the values leave the straight line."""
    found = {low: measure(low)}
    if high > low:
        found[high] = measure(high)
        _between(low, high, found, measure)
    return dict(sorted(found.items()))


def _between(low: int, high: int, found: dict[int, float], measure: Callable[[int], float]) -> None:
    middle = round((low * high) ** 0.5)  # batches and cores double rather than add up
    if middle in (low, high):
        return
    part = (middle - low) / (high - low)
    expected = found[low] + part * (found[high] - found[low])
    found[middle] = value = measure(middle)
    if abs(value / expected - 1) > _STRAIGHT:
        _between(low, middle, found, measure)
        _between(middle, high, found, measure)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "none"
