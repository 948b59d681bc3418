"""What the allocator is asked and what it answers, as numbers alone: machines, stage costs, shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from ebrl.planner.costs import StageCosts

SIMULATION, GENERATION, TRAINING, OTHERS = "simulation", "generation", "training", "others"
"""Names of the loads; ``others`` are all item stages beside the training together."""

Core = tuple[str, int]
"""Node and core id."""


@attrs.define(frozen=True, kw_only=True)
class Device:
    """One GPU or MIG instance."""

    uuid: str
    model: str
    """Which cost table applies."""
    memory_mib: float = float("inf")
    rt_cores: bool = True
    """Whether it can ray-trace, which some simulators need."""


@attrs.define(frozen=True, kw_only=True)
class Node:
    """One machine. A node without devices can simulate only."""

    name: str = ""
    cores: tuple[int, ...]
    devices: tuple[Device, ...] = ()


@attrs.define(frozen=True, kw_only=True)
class Problem:
    """Maximise the rate of the slowest stage, in chunk-steps per second."""

    nodes: tuple[Node, ...]
    """The first one generates and trains where that happens on the CPU."""
    simulation: StageCosts
    """On ``cpu``: a call is one chunk-step, its quota all cores that simulate. On a device: its part there."""
    generation: StageCosts
    """A call is one batch of chunk-steps."""
    training: StageCosts
    """A call is one iteration; several devices divide its chunk-steps evenly and wait for one another."""
    environments: int
    iteration: int
    """Chunk-steps that one training iteration consumes."""
    others_core_s: float = 0.0
    """CPU time of all other item stages, per chunk-step."""
    barriers: bool = False
    """Rollout and training take turns, as with a `max_staleness` of 0."""
    max_staleness: int = 1
    """So many batches more than the one that trains may be under way."""
    window: int = 1
    """Chunk-steps of a batch that one environment records in a row."""
    reset_s: float = 0.0
    """For how long a reset keeps an environment from its window; its cost on the cores is part of `simulation`."""
    efficiency: float = 1.0
    """Share of the rate that all limits together allow which a run reaches."""
    rt_cores: bool = False
    """The simulator's part on a device needs ray tracing."""
    step_percent: int = 10
    """Grid of SM shares."""
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Grid of batch sizes; those beyond `environments` are left out."""
    threads: tuple[int, ...] = (1, 2, 4, 8)
    """Grid of threads where generation and training run on the CPU."""
    core_quotas: Mapping[str, frozenset[Core]] = attrs.field(factory=dict)
    """Load -> the cores that its author allows it."""
    pinned: Mapping[str, int] = attrs.field(factory=dict)
    """Stage -> threads or batch that the author fixed: ``training_threads``, ``generation_threads``, ``batch``."""

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(device for node in self.nodes for device in node.devices)

    @property
    def cores(self) -> frozenset[Core]:
        """All cores of all nodes."""
        return frozenset(core for node in self.nodes for core in _cores(node))

    @property
    def first_cores(self) -> frozenset[Core]:
        """Those of the node that generates and trains."""
        return frozenset(_cores(self.nodes[0]))

    def grid(self, name: str) -> tuple[int, ...]:
        """What may be chosen for ``batch``, ``generation_threads`` or ``training_threads``."""
        if name in self.pinned:
            return (self.pinned[name],)
        if name == "batch":
            # All environments at once is always a choice: it is what lock-step needs.
            return tuple(sorted({b for b in self.batches if b < self.environments} | {self.environments}))
        return tuple(count for count in self.threads if count <= max(1, len(self.nodes[0].cores)))


def _cores(node: Node) -> Iterator[Core]:
    return ((node.name, core) for core in node.cores)


Shares = Mapping[str, int]
"""Device UUID -> percent of its SMs."""


@attrs.define(frozen=True, kw_only=True)
class Allocation:
    """One answer. Stages without shares run on the CPU."""

    simulation: Shares = attrs.field(factory=dict)
    generation: Shares = attrs.field(factory=dict)
    """One replica per device."""
    training: Shares = attrs.field(factory=dict)
    generation_replicas: int = 1
    """Where generation runs on the CPU."""
    batch: int = 1
    generation_threads: int = 1
    training_threads: int = 1
    cores: Mapping[str, frozenset[Core]] = attrs.field(factory=dict)
    """Load -> the cores that it may use; all (or all of the first node) where it is left out."""
