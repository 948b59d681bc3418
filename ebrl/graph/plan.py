"""Plan: one frozen assignment of stages to resources and rules of order. Picklable and comparable."""

from __future__ import annotations

from collections.abc import Sequence

import attrs


@attrs.define(frozen=True, kw_only=True)
class Quota:
    """What a stage may use. Its replicas share cores (`replica_cores`) and GPUs (`replica_gpus`); threads and
    `memory_mib` are for each."""

    cores: tuple[int, ...]
    """Core ids; several stages may name the same core, they then share it."""
    bound: bool = False
    """Whether processes are bound to these cores, an environment to the one that it was granted; else cores are only
    counted."""
    threads: int = 1
    """Size of every thread pool (OMP, MKL, torch) in the replica's process."""
    gpus: tuple[str, ...] = ()
    """Device UUIDs."""
    sm_percent: tuple[int, ...] = ()
    """Share of each of `gpus`; empty where they are not divided."""
    gpu_memory_mib: tuple[int, ...] = ()
    """What the stage needs of each of `gpus` at its peak; empty where nobody knows."""
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
    """Most observations of one generation call; trajectory windows of one training iteration."""

    def workers(self) -> tuple[str, ...]:
        """Names of the Dask workers, one per replica."""
        return tuple(f"{self.name}-{replica}" for replica in range(self.replicas))


@attrs.define(frozen=True, kw_only=True)
class Plan:
    """Everything the runtime needs to know beside the graph itself."""

    workflow: str
    epoch: int = 0
    schedule: str = "ebrl"
    """One of `ebrl.graph.schedules`."""
    without: tuple[str, ...] = ()
    """Mechanisms that it does not use, of `ebrl.graph.schedules.MECHANISMS`."""
    max_staleness: int = 1
    """Largest allowed difference between the version that trains on a chunk and the one that generated it."""
    step_barrier: bool = False
    """All environments of a group finish their chunk before the next generation batch (lock-step)."""
    groups: int = 1
    """Of environments, that step barriers keep apart; each replica of a simulation has so many."""
    rebinding: bool = True
    """A free core takes whichever environment is most urgent; else every environment keeps its core for ever."""
    stages: tuple[StagePlan, ...]
    """In topological order along streams, see `compile_graph`."""
    loops: tuple[tuple[str, ...], ...]
    """Rollout loops: resident stages that talk through bounded channels."""
    predicted: float | None = None
    """Chunk-steps per second that the planner expects of this plan; None where it knew no costs."""
    notes: tuple[str, ...] = ()
    """What the reader of a plan should know, such as a quota that is only advisory."""

    def stage(self, name: str) -> StagePlan:
        return next(stage for stage in self.stages if stage.name == name)

    def of_kind(self, kind: str) -> StagePlan:
        """The first stage of `kind`; StopIteration where there is none."""
        return next(stage for stage in self.stages if stage.kind == kind)

    @property
    def title(self) -> str:
        """``ebrl``, or ``ebrl without overlap, rebinding``."""
        return f"{self.schedule} without {', '.join(self.without)}" if self.without else self.schedule

    @property
    def item_stages(self) -> tuple[str, ...]:
        """Stages outside every loop: one Dask task per iteration."""
        resident = {name for loop in self.loops for name in loop}
        return tuple(stage.name for stage in self.stages if stage.name not in resident)


def request_size(plan: Plan) -> int:
    """Observations that the largest generation call takes."""
    return max((stage.batch_size for stage in plan.stages if stage.kind == "generation"), default=1)


def replica_gpus(stage: StagePlan, replica: int) -> slice:
    """Which of the GPUs of its stage one replica may use: where there are enough, every one has its own."""
    enough = len(stage.quota.gpus) >= stage.replicas
    return slice(replica, None, stage.replicas) if enough else slice(None)


def replica_cores(stage: StagePlan, replica: int, beside: Sequence[int] | None = None) -> tuple[int, ...]:
    """The cores that one replica may use. Replicas of a simulation divide the cores of their stage where there
    are enough; otherwise, and in other stages, they share them all.

    beside: the replicas that run on the same node, itself included; all replicas where it is left out.
    """
    together = sorted(range(stage.replicas) if beside is None else beside)
    cores = stage.quota.cores
    if stage.kind != "simulation" or len(cores) < len(together):
        return cores
    position, size = together.index(replica), len(together)
    return cores[len(cores) * position // size : len(cores) * (position + 1) // size]
