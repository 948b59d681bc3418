"""A workflow while its function runs: the calls, the handles they return, the declared edges.

Nothing is judged here beyond what cannot be written down (an argument that fits no parameter); the
rules read the finished draft.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import attrs

from ebrl.backends.registry import parse_uri
from ebrl.errors import Finding, UsageError, did_you_mean
from ebrl.graph.model import Edge, Graph, Node, PolicyRef, Port, SimulatorRef, StageDefinition
from ebrl.graph.ports import ITEM_TYPES, input_port
from ebrl.graph.source import caller_place

FAULT_OPTIONS = ("start_deadline_s", "reset_deadline_s", "step_deadline_s", "most_restarts", "memory_limit_mib")
"""Of stages with environments; None: as `RolloutSettings` has it."""
_OPTIONS: Mapping[str, Mapping[str, int | None]] = {
    "simulation": {"num_envs": 1, "num_steps": 64, "replicas": 1, **dict.fromkeys(FAULT_OPTIONS)},
    "generation": {"batch_size": None, "replicas": 1},
    "training": {"batch": None, "iterations": 1000},
    "stage": {"every": 1},
}

current: ContextVar[Draft | None] = ContextVar("ebrl_draft", default=None)
"""The workflow being built, if any."""


@attrs.define(frozen=True, kw_only=True, eq=False)
class Output:
    """What a stage call returns in a workflow function: a handle on one output port."""

    node: str
    port: Port
    place: str

    def __iter__(self) -> Iterator[Any]:
        raise UsageError(
            "there is one output here, it cannot be unpacked into several",
            where=f"{self.node}.{self.port.name}",
            place=caller_place(),
            hint=f"a stage with several outputs returns a tuple: write `-> tuple[A, B]` in {self.node}",
        )


@attrs.define(frozen=True, kw_only=True)
class Reader:
    """An input port that a declared edge was passed to."""

    node: str
    port: str
    place: str
    early: bool
    """Passed before the edge was fed: the edge starts empty for this reader."""


@attrs.define(kw_only=True, eq=False)
class DeclaredEdge:
    """An edge declared ahead of its producer by `ebrl.stream` or `ebrl.latest`; fed by ``edge <<= stage(...)``."""

    name: str
    type: Any
    latest: bool
    max_staleness: int
    place: str
    feeds: list[tuple[Any, str]] = attrs.field(factory=list)
    """(what was fed, file:line)"""
    readers: list[Reader] = attrs.field(factory=list)

    def __ilshift__(self, output: Any) -> DeclaredEdge:
        self.feeds.append((output, caller_place()))
        return self


@attrs.define(frozen=True, kw_only=True)
class Premature:
    """The workflow function used a variable before the stage call that assigns it."""

    function: Callable[..., Any]
    variable: str
    line: int
    place: str


@attrs.define(kw_only=True)
class Draft:
    """Everything a workflow function did."""

    graph: Graph
    names: Mapping[int, str] = attrs.field(factory=dict)
    """Variable assigned on each line of the workflow function."""
    declared: list[DeclaredEdge] = attrs.field(factory=list)
    findings: list[Finding] = attrs.field(factory=list)
    """Arguments that fit no parameter."""
    reference_places: dict[int, str] = attrs.field(factory=dict)
    """Where a simulator or policy was declared, by its id (the nodes keep it alive)."""
    given: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    """Arguments as passed, by node and parameter: handles included."""
    definitions: dict[str, StageDefinition] = attrs.field(factory=dict)
    """By node, with the ports as declared; `Node.stage` has those of the call."""
    premature: Premature | None = None

    def add(self, definition: StageDefinition, args: tuple[Any, ...], kwargs: dict[str, Any], place: str) -> Any:
        """Record one stage call; gives its outputs: None, one handle, or a tuple of handles."""
        name = self._unique(definition.name)
        given, options = self._bind(name, definition, args, kwargs, place)
        self.given[name] = given
        self.definitions[name] = definition
        values: dict[str, Any] = {}
        for parameter, value in given.items():
            if isinstance(value, DeclaredEdge):
                reader = Reader(node=name, port=parameter, place=place, early=not value.feeds)
                value.readers.append(reader)
            elif isinstance(value, Output):
                self.graph.edges.append(
                    Edge(source=value.node, output=value.port.name, target=name, input=parameter, place=place)
                )
            else:
                values[parameter] = self._value(definition, parameter, value)
        self.graph.nodes[name] = Node(
            name=name,
            stage=_as_called(definition, given),
            values=values,
            options=engine_options(definition) | {key: value for key, value in options.items() if value is not None},
            place=place,
        )
        outputs = tuple(Output(node=name, port=port, place=place) for port in definition.outputs)
        return None if not outputs else outputs[0] if len(outputs) == 1 else outputs

    def connect_declared(self) -> None:
        """Turn every declared edge that has a producer into edges of the graph."""
        for declared in self.declared:
            producers = [output for output, _ in declared.feeds if isinstance(output, Output)]
            for producer in producers[:1]:
                for reader in declared.readers:
                    self.graph.edges.append(
                        Edge(
                            source=producer.node,
                            output=producer.port.name,
                            target=reader.node,
                            input=reader.port,
                            latest=declared.latest,
                            feedback=reader.early,
                            max_staleness=declared.max_staleness,
                            place=reader.place,
                        )
                    )

    def _unique(self, name: str) -> str:
        number = 1
        while (candidate := name if number == 1 else f"{name}_{number}") in self.graph.nodes:
            number += 1
        return candidate

    def _bind(
        self, node: str, definition: StageDefinition, args: tuple[Any, ...], kwargs: dict[str, Any], place: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """(arguments by parameter, engine options by name) of a call."""
        order = positional_order(definition)
        parameters = inspect.signature(definition.function).parameters
        options = engine_options(definition)
        given = dict(zip(order, args, strict=False))
        taken: dict[str, Any] = {}

        def refuse(rule: str, argument: str, message: str, hint: str = "") -> None:
            where = f"{node}.{argument}" if argument else node
            self.findings.append(Finding(rule=rule, where=where, message=message, place=place, hint=hint))

        if len(args) > len(order):
            message = f"takes {len(order)} positional argument(s) ({', '.join(order)}), got {len(args)}"
            refuse("too-many-arguments", "", message, "pass settings and options by name")
        for key, value in kwargs.items():
            if key in given:
                refuse("too-many-arguments", key, "is passed twice, by position and by name")
            elif key in parameters:
                given[key] = value
            elif key in options:
                taken[key] = value
            else:
                message = f"{definition.kind} {definition.name!r} has neither a parameter nor an option of this name"
                refuse("unknown-option", key, message, did_you_mean(key, [*parameters, *options]))
        return given, taken

    def _value(self, definition: StageDefinition, parameter: str, value: Any) -> Any:
        role = definition.roles.get(parameter)
        if role in ("simulator", "environments") and isinstance(value, str):
            try:
                backend, target, options = parse_uri(value)
            except UsageError:
                return value  # the rule on arguments says what is wrong with it
            return SimulatorRef(backend=backend, target=target, options=options)
        return value

    def note_reference(self, reference: SimulatorRef | PolicyRef, place: str) -> None:
        self.reference_places[id(reference)] = place


def engine_options(definition: StageDefinition) -> dict[str, int | None]:
    """Options of the engine for one call of this stage, with their defaults."""
    options = dict(_OPTIONS[definition.kind])
    if "environments" in definition.roles.values():
        options |= {"num_envs": 1, **dict.fromkeys(FAULT_OPTIONS)}
    return options


def positional_order(definition: StageDefinition) -> list[str]:
    """Parameters in the order in which a workflow passes them: `State` is skipped, a simulation starts
    with its simulator and its actions."""
    order = [
        parameter.name
        for parameter in inspect.signature(definition.function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and definition.roles.get(parameter.name) != "state"
    ]
    if definition.kind == "simulation":
        ports = {port.name for port in definition.inputs}
        roles = definition.roles
        order.sort(key=lambda name: 0 if roles.get(name) == "simulator" else 1 if name in ports else 2)
    return order


def _as_called(definition: StageDefinition, given: Mapping[str, Any]) -> StageDefinition:
    """The definition with the ports of this call: what receives an edge is a port, what receives a plain value
    is a setting, unless its type travels on edges only."""
    connected = {name for name, value in given.items() if isinstance(value, (Output, DeclaredEdge))}
    inputs = [port for port in definition.inputs if port.name in connected or port.name not in given or is_item(port)]
    ports = {port.name for port in inputs}
    settings = {port.name: port.type for port in definition.inputs if port.name not in ports}
    settings.update(definition.settings)
    for name in sorted(connected & set(definition.settings)):
        inputs.append(input_port(name, settings.pop(name)))
    return attrs.evolve(definition, inputs=tuple(inputs), settings=settings)


def is_item(port: Port) -> bool:
    """Whether a port can only be fed by an edge, never by a plain value."""
    return port.batched or (isinstance(port.item, type) and issubclass(port.item, ITEM_TYPES))
