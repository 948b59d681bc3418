"""Plan: one frozen assignment of stages to resources and rules of order. Picklable and comparable."""

from __future__ import annotations

import attrs

SCHEDULES = ("ebrl", "sync")


@attrs.define(frozen=True, kw_only=True)
class Quota:
    """What one replica of a stage may use."""

    cores: tuple[int, ...]
    """Core ids; several stages may name the same core, they then share it."""
    threads: int = 1
    """Size of every thread pool (OMP, MKL, torch) in the replica's process."""
    gpus: tuple[str, ...] = ()
    """Device UUIDs."""
    memory_mib: int | None = None


@attrs.define(frozen=True, kw_only=True)
class StagePlan:
    """How one stage of the graph runs."""

    name: str
    kind: str
    """``simulation``, ``generation``, ``training`` or ``stage``."""
    replicas: int = 1
    quota: Quota
    batch_size: int = 1
    """Most items of one call: observations for generation, trajectories for training."""

    def workers(self) -> tuple[str, ...]:
        """Names of the Dask workers, one per replica."""
        return tuple(f"{self.name}-{replica}" for replica in range(self.replicas))


@attrs.define(frozen=True, kw_only=True)
class Plan:
    """Everything the runtime needs to know beside the graph itself."""

    workflow: str
    epoch: int = 0
    schedule: str = "ebrl"
    max_staleness: int = 1
    """Largest allowed difference between the version that trains on a chunk and the one that generated it."""
    step_barrier: bool = False
    """All environments finish their chunk before the next generation batch (lock-step)."""
    stages: tuple[StagePlan, ...]
    """In topological order of the graph without its feedback edges."""
    loops: tuple[tuple[str, ...], ...]
    """Rollout loops: resident stages that talk through bounded channels."""
    notes: tuple[str, ...] = ()
    """What the reader of a plan should know, such as a quota that is only advisory."""

    def stage(self, name: str) -> StagePlan:
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def item_stages(self) -> tuple[str, ...]:
        """Stages outside every loop: one Dask task per item."""
        resident = {name for loop in self.loops for name in loop}
        return tuple(stage.name for stage in self.stages if stage.name not in resident)
