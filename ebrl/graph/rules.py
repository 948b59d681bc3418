"""The rules that a workflow must obey: one small function per rule, draft in, findings out.

To add a rule: write the function, add it to `DECLARATION_RULES` (stage functions alone), `WIRING_RULES`
(calls and edges), `STRUCTURE_RULES` (the graph as a whole) or `LIMIT_RULES` (what cannot be run yet), and
add a tiny faulty workflow to ``tests/bad_workflows``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ebrl.errors import Finding, did_you_mean
from ebrl.graph.bounds import chunk_size, max_staleness, option_value
from ebrl.graph.capture import capture_pickle, capture_size
from ebrl.graph.draft import DeclaredEdge, Draft, Output
from ebrl.graph.limits import LIMIT_RULES, one_simulation
from ebrl.graph.model import Node, PolicyRef, SimulatorRef
from ebrl.graph.ports import MISSING, assignable, type_name, type_names
from ebrl.graph.premature import explain
from ebrl.graph.signatures import signature, unannotated
from ebrl.graph.structure import idle_replica, loop_member, one_training, open_simulation, starved_cycle

Rule = Callable[[Draft], Iterator[Finding]]


def cycle(draft: Draft) -> Iterator[Finding]:
    """No stage uses an output of a stage that is called later, unless over a declared edge."""
    if draft.premature is not None:
        yield explain(draft.premature)


def duplicate_stage(draft: Draft) -> Iterator[Finding]:
    """Two stage functions of one workflow have two names."""
    first: dict[str, Node] = {}
    for node in draft.graph.nodes.values():
        other = first.setdefault(node.stage.name, node)
        if other.stage.function is not node.stage.function:
            yield Finding(
                rule="duplicate-stage",
                where=node.stage.name,
                message=f"two stages have this name: {other.stage.place} and {node.stage.place}",
                place=node.place,
                hint="rename one of the functions",
            )


def arguments(draft: Draft) -> Iterator[Finding]:
    """Every argument of a call fits a parameter or an engine option."""
    yield from draft.findings


def missing_argument(draft: Draft) -> Iterator[Finding]:
    """Parameters that are no ports get a value, unless they have a default or the engine fills them."""
    for node in draft.graph.nodes.values():
        parameters = inspect.signature(node.stage.function).parameters
        for name, annotation in node.stage.settings.items():
            role = node.stage.roles.get(name)
            left_out = parameters[name].default is not MISSING and not _indispensable(node, role)
            if name in draft.given[node.name] or role == "state" or left_out:
                continue
            hint = _ROLE_HINTS.get(role or "", f"pass {name}=...")
            yield _at(
                node, name, "missing-argument", f"needs {_with_article(type_name(annotation))}, got nothing", hint
            )


_ROLE_HINTS = {
    "simulator": "pass a simulator, for example 'robosuite:Lift' or ebrl.simulator(...)",
    "environments": "pass a simulator, for example 'robosuite:Lift' or ebrl.simulator(...)",
    "policy": 'pass a policy, for example ebrl.policy("mlp")',
    "state": "pass nothing: the engine fills it",
}


def wrong_argument(draft: Draft) -> Iterator[Finding]:
    """A simulator is passed for a Simulator, a policy for a Policy, nothing for a State."""
    wanted: dict[str, Any] = {"simulator": SimulatorRef, "environments": SimulatorRef, "policy": PolicyRef, "state": ()}
    for node in draft.graph.nodes.values():
        parameters = inspect.signature(node.stage.function).parameters
        for name, annotation in draft.definitions[node.name].settings.items():
            role = node.stage.roles.get(name)
            if role is None or name not in draft.given[node.name]:
                continue
            value = node.values.get(name, draft.given[node.name][name])
            left_out = value is None and parameters[name].default is None and not _indispensable(node, role)
            if isinstance(value, wanted[role]) or left_out:
                continue
            message = f"takes {_with_article(type_name(annotation))}, got {_shown(value)}"
            yield _at(node, name, "wrong-argument", message, _ROLE_HINTS[role])


def _indispensable(node: Node, role: str | None) -> bool:
    """Whether the engine cannot run the node without it, whatever default the function declares."""
    return role == "environments" or (role in ("simulator", "policy") and node.stage.kind != "stage")


def unconnected_input(draft: Draft) -> Iterator[Finding]:
    """Every input port without a default receives an edge."""
    for node in draft.graph.nodes.values():
        for port in node.stage.inputs:
            if port.required and port.name not in draft.given[node.name]:
                message = f"input of type {type_name(port.type)} is not connected"
                hint = f"pass the output of a stage, or an edge declared with `ebrl.stream`, as {port.name}"
                yield _at(node, port.name, "unconnected-input", message, hint)


def plain_value(draft: Draft) -> Iterator[Finding]:
    """Items travel on edges: a port takes no plain value."""
    for node in draft.graph.nodes.values():
        for port in node.stage.inputs:
            if port.name not in node.values or (node.values[port.name] is None and not port.required):
                continue
            value = node.values[port.name]
            hint = "pass the output of a stage"
            if isinstance(value, tuple) and value and all(isinstance(part, Output) for part in value):
                names = ", ".join(part.port.name for part in value)
                hint = f"that stage has {len(value)} outputs, unpack them: `{names} = {value[0].node}(...)`"
            message = f"takes {type_name(port.type)} from an edge, got {_shown(value)}"
            yield _at(node, port.name, "plain-value", message, hint)


def unfed_edge(draft: Draft) -> Iterator[Finding]:
    """Every declared edge is fed."""
    for edge in draft.declared:
        if not edge.feeds:
            message = f"this {_word(edge)} of {type_name(edge.type)} is never fed"
            hint = f"feed it with `{edge.name} <<= stage(...)` (a plain `=` makes a new variable)"
            yield Finding(rule="unfed-edge", where=edge.name, message=message, place=edge.place, hint=hint)


def edge_fed_twice(draft: Draft) -> Iterator[Finding]:
    """A declared edge has one producer."""
    for edge in draft.declared:
        for _, place in edge.feeds[1:]:
            yield Finding(
                rule="edge-fed-twice",
                where=edge.name,
                message=f"this {_word(edge)} of {type_name(edge.type)} is fed again, first at {edge.feeds[0][1]}",
                place=place,
                hint="declare one edge per producer",
            )


def unread_edge(draft: Draft) -> Iterator[Finding]:
    """A declared edge has a reader: a training whose weights nobody reads would train for nothing."""
    for edge in draft.declared:
        if edge.feeds and not edge.readers:
            yield Finding(
                rule="unread-edge",
                where=edge.name,
                message=f"this {_word(edge)} of {type_name(edge.type)} is fed, but no stage reads it",
                place=edge.place,
                hint=f"pass {edge.name} to a stage, or drop it",
            )


def type_mismatch(draft: Draft) -> Iterator[Finding]:
    """What an output gives fits the edge, and what an edge carries fits the input."""
    for edge in draft.declared:
        for output, place in edge.feeds:
            if not isinstance(output, Output):
                message = f"carries {type_name(edge.type)} from the one output of a stage, got {_shown(output)}"
                hint = f"write `{edge.name} <<= stage(...)`"
                yield Finding(rule="type-mismatch", where=edge.name, message=message, place=place, hint=hint)
            elif not assignable(output.port.item, edge.type):
                gives, takes = type_names(output.port.item, edge.type)
                yield Finding(
                    rule="type-mismatch",
                    where=f"{output.node}.{output.port.name}",
                    message=f"gives {gives}, but edge {edge.name!r} carries {takes}",
                    place=place,
                    hint=f"the edge is declared at {edge.place}",
                )
    for node in draft.graph.nodes.values():
        for port in node.stage.inputs:
            source = draft.given[node.name].get(port.name)
            if isinstance(source, Output):
                carried, origin = source.port.item, f"{source.node}.{source.port.name} gives"
            elif isinstance(source, DeclaredEdge):
                carried, origin = source.type, f"edge {source.name!r} carries"
            else:
                continue
            if not assignable(carried, port.item):
                gives, takes = type_names(carried, port.item)
                hint = f"pass an edge of {takes}, or put a stage between that makes {takes} of {gives}"
                yield _at(node, port.name, "type-mismatch", f"takes {takes}, but {origin} {gives}", hint)


def unknown_simulator(draft: Draft) -> Iterator[Finding]:
    """Every simulator names a backend that is installed, or a module that has its factory."""
    from ebrl.backends.registry import is_importable, simulator_names

    yield from _unknown_backend(draft, SimulatorRef, "simulator", simulator_names(), is_importable)


def unknown_policy(draft: Draft) -> Iterator[Finding]:
    """Every policy names a backend that is installed."""
    from ebrl.backends.registry import policy_names

    yield from _unknown_backend(draft, PolicyRef, "policy", policy_names())


def _unknown_backend(
    draft: Draft, kind: type[Any], word: str, names: list[str], fits: Callable[[str], bool] = lambda backend: False
) -> Iterator[Finding]:
    """`fits` says of a backend that is not in `names` whether it can be used all the same."""
    seen: set[int] = set()
    for node in draft.graph.nodes.values():
        for parameter, value in node.values.items():
            if not isinstance(value, kind) or value.backend in names or id(value) in seen or fits(value.backend):
                continue
            seen.add(id(value))
            yield Finding(
                rule=f"unknown-{word}",
                where=f"{node.name}.{parameter}",
                message=f"no {word} backend is named {value.backend!r}",
                place=draft.reference_places.get(id(value), node.place),
                hint=did_you_mean(value.backend, names),
            )


def _at(node: Node, port: str, rule: str, message: str, hint: str = "") -> Finding:
    return Finding(rule=rule, where=f"{node.name}.{port}", message=message, place=node.place, hint=hint)


def _word(edge: DeclaredEdge) -> str:
    return "register" if edge.latest else "stream"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"


def _shown(value: Any) -> str:
    if isinstance(value, PolicyRef):
        return f"the policy {value.backend!r}"
    if isinstance(value, SimulatorRef):
        return f"the simulator '{value}'"
    if isinstance(value, Output):
        return f"{value.node}.{value.port.name}"
    if isinstance(value, DeclaredEdge):
        return f"edge {value.name!r}"
    if isinstance(value, tuple) and value and all(isinstance(part, Output) for part in value):
        return f"the {len(value)} outputs of {value[0].node}"
    text = repr(value)
    return text if len(text) <= 60 else f"a value of type {type_name(type(value))}"


DECLARATION_RULES: tuple[Rule, ...] = (cycle, unannotated, signature, duplicate_stage)
WIRING_RULES: tuple[Rule, ...] = (
    arguments,
    missing_argument,
    wrong_argument,
    option_value,
    unconnected_input,
    plain_value,
    unfed_edge,
    edge_fed_twice,
    unread_edge,
    max_staleness,
    chunk_size,
    type_mismatch,
    unknown_simulator,
    unknown_policy,
    capture_size,
    capture_pickle,
)
STRUCTURE_RULES: tuple[Rule, ...] = (
    starved_cycle,
    loop_member,
    open_simulation,
    one_training,
    one_simulation,
    idle_replica,
)
RULES = DECLARATION_RULES + WIRING_RULES + STRUCTURE_RULES + LIMIT_RULES


def check(draft: Draft) -> list[Finding]:
    """All findings of the first group that has any: later groups would only echo faults of earlier ones."""
    for group in (DECLARATION_RULES, WIRING_RULES, STRUCTURE_RULES, LIMIT_RULES):
        if findings := [finding for rule in group for finding in rule(draft)]:
            return findings
    return []
