"""The stage graph as data: what decorators and workflow functions produce, and everything else reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

if TYPE_CHECKING:
    import networkx as nx

KINDS = ("simulation", "generation", "training", "stage")


@attrs.define(frozen=True, kw_only=True)
class Port:
    """One typed end of an edge."""

    name: str
    type: Any
    """The annotation as written, resolved."""
    item: Any
    """The type of one item: T for Batch[T], Iterator[T] and Optional[T]; otherwise `type`."""
    batched: bool = False
    """The stage takes or gives many items in one call."""
    required: bool = True


@attrs.define(frozen=True, kw_only=True)
class Resources:
    """What the author of a stage asks for; None leaves the choice to the allocator."""

    cpus: float | None = None
    gpus: float | None = None
    memory_mib: int | None = None


@attrs.define(frozen=True, kw_only=True)
class StageDefinition:
    """A decorated function."""

    name: str
    kind: str
    function: Callable[..., Any] = attrs.field(eq=False)
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    settings: Mapping[str, Any] = attrs.field(factory=dict, eq=False)
    """Remaining parameters by name with their annotation."""
    roles: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    """What the engine fills in, by parameter: ``simulator``, ``policy``, ``environments`` or ``state``."""
    resources: Resources = Resources()
    place: str = ""
    """file:line of the function."""


@attrs.define(frozen=True, kw_only=True)
class SimulatorRef:
    """A declared simulator: created later, in an environment process."""

    backend: str
    target: str
    options: Mapping[str, Any] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return f"{self.backend}:{self.target}"


@attrs.define(frozen=True, kw_only=True)
class PolicyRef:
    """A declared policy: created later, in the workers that act or train."""

    backend: str
    options: Mapping[str, Any] = attrs.field(factory=dict)


Reference = TypeVar("Reference", SimulatorRef, PolicyRef)


@attrs.define(frozen=True, kw_only=True)
class Node:
    """One call of a stage in a workflow."""

    name: str
    """The definition's name, with ``_2``, ``_3`` … where one stage is used several times."""
    stage: StageDefinition
    values: Mapping[str, Any] = attrs.field(factory=dict)
    """Arguments that are no edges, by parameter (SimulatorRef and PolicyRef among them)."""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """Settings of the engine for this call, such as ``num_envs`` or ``every``; complete with defaults."""
    place: str = ""
    """file:line of the call."""

    def reference(self, kind: type[Reference]) -> tuple[str, Reference] | None:
        """(parameter, value) of the argument that the engine makes a simulator (or environments) or a policy of."""
        for name in self.stage.roles:
            if isinstance(value := self.values.get(name), kind):
                return name, value
        return None


@attrs.define(frozen=True, kw_only=True)
class Edge:
    """A connection from an output port to an input port."""

    source: str
    output: str
    target: str
    input: str
    latest: bool = False
    """A versioned register where the newest value wins; otherwise a stream (bounded FIFO)."""
    feedback: bool = False
    """Declared before its producer (``x <<= stage(...)``): starts empty, may close a cycle."""
    max_staleness: int = 1
    """Of a `latest` edge."""
    place: str = ""


@attrs.define(kw_only=True)
class Graph:
    """A checked workflow. `network` is a networkx.MultiDiGraph with one edge key ``edge`` per `Edge`."""

    name: str
    nodes: dict[str, Node] = attrs.field(factory=dict)
    edges: list[Edge] = attrs.field(factory=list)
    parameters: Mapping[str, Any] = attrs.field(factory=dict)
    """The workflow's arguments, defaults included."""
    place: str = ""
    folder: str = ""
    """Folder of the workflow file, so that workers can import the modules beside it."""

    @property
    def network(self) -> nx.MultiDiGraph:
        import networkx as nx  # environment processes import this module and need no graphs

        network = nx.MultiDiGraph()
        network.add_nodes_from(self.nodes)
        for edge in self.edges:
            network.add_edge(edge.source, edge.target, edge=edge)
        return network

    def inputs(self, name: str) -> Iterator[Edge]:
        return (edge for edge in self.edges if edge.target == name)

    def outputs(self, name: str) -> Iterator[Edge]:
        return (edge for edge in self.edges if edge.source == name)

    def of_kind(self, kind: str) -> list[Node]:
        return [node for node in self.nodes.values() if node.stage.kind == kind]
