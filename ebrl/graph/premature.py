"""Explains a stage output that is used before its stage was called: nearly always a cycle without a feedback edge.

Python stops at the first such use, so the calls that would have followed are read from the source.
"""

from __future__ import annotations

import ast
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import networkx as nx

from ebrl.errors import Finding
from ebrl.graph.draft import Premature
from ebrl.graph.items import Weights
from ebrl.graph.ports import type_name
from ebrl.graph.source import parse, place
from ebrl.graph.stage import Stage


@attrs.define(frozen=True, kw_only=True)
class _Call:
    stage: Stage
    node: ast.Call
    results: tuple[str, ...]
    """Variables that receive the outputs, in order."""

    @property
    def name(self) -> str:
        return self.stage.__name__

    @property
    def used(self) -> set[str]:
        return {part.id for part in ast.walk(self.node) if isinstance(part, ast.Name)}

    def covers(self, line: int) -> bool:
        return self.node.lineno <= line <= (self.node.end_lineno or self.node.lineno)


def premature_use(function: Callable[..., Any], error: NameError) -> Premature | None:
    """The variable and line of a NameError raised by the workflow function itself, else None."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    name = re.search(r"'(\w+)'", str(error))
    code = function.__code__
    if name is None or not frame.lineno or (frame.filename, frame.name) != (code.co_filename, code.co_name):
        return None
    use = Premature(function=function, variable=name[1], line=frame.lineno, place=place(frame.filename, frame.lineno))
    return use if any(use.variable in call.results for call in _calls(function)) else None


def explain(use: Premature) -> Finding:
    """The cycle that the use would close, and how to declare its feedback edge."""
    calls = _calls(use.function)
    producer = next(call for call in calls if use.variable in call.results)
    declaration = _declaration(producer, use.variable)
    feed = f"`{use.variable} <<= {producer.name}(...)`"
    consumer = _consumer(calls, use)
    if consumer is None and producer.covers(use.line):
        return Finding(
            rule="undeclared-edge",
            where=use.variable,
            message=f"is fed by {producer.name!r}, but was never declared",
            place=use.place,
            hint=f"declare {declaration} before",
        )
    path = _path(calls, consumer, producer, use.variable)
    if not path:
        return Finding(
            rule="used-before-call",
            where=use.variable,
            message=f"is an output of {producer.name!r}, which is called later, in line {producer.node.lineno}",
            place=use.place,
            hint=f"call {producer.name!r} first, or declare {declaration} before and feed it with {feed}",
        )
    return Finding(
        rule="cycle",
        where=use.variable,
        message=f"the stages form a cycle without a feedback edge: {' -> '.join([*path, path[0]])}",
        place=use.place,
        hint=f"declare {declaration} before its first use and feed it with {feed}",
    )


def _calls(function: Callable[..., Any]) -> list[_Call]:
    """Calls of stages in the source of `function`, in order."""
    tree = parse(function)
    if tree is None:
        return []
    results = {id(value): names for value, names in _assignments(tree)}
    calls = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(stage := _resolve(function, node.func), Stage):
            calls.append(_Call(stage=stage, node=node, results=results.get(id(node), ())))
    return sorted(calls, key=lambda call: (call.node.lineno, call.node.col_offset))


def _assignments(tree: ast.AST) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                yield statement.value, tuple(part.id if isinstance(part, ast.Name) else "" for part in parts)
        elif (
            isinstance(statement, (ast.AugAssign, ast.AnnAssign))
            and isinstance(statement.target, ast.Name)
            and statement.value is not None
        ):
            yield statement.value, (statement.target.id,)


def _resolve(function: Callable[..., Any], callee: ast.expr) -> Any:
    if isinstance(callee, ast.Attribute):
        return getattr(_resolve(function, callee.value), callee.attr, None)
    if not isinstance(callee, ast.Name):
        return None
    scope = inspect.getclosurevars(function)
    return scope.nonlocals.get(callee.id, function.__globals__.get(callee.id))


def _consumer(calls: list[_Call], use: Premature) -> _Call | None:
    """The innermost stage call that reads the variable where the error was raised."""
    around = [call for call in calls if use.variable in call.used and call.covers(use.line)]
    return around[-1] if around else None


def _path(calls: list[_Call], consumer: _Call | None, producer: _Call, variable: str) -> list[str]:
    """Stages from the consumer to the producer along data, if the one feeds the other."""
    network = nx.DiGraph()
    network.add_nodes_from(call.name for call in calls)
    for call in calls:
        for earlier in calls:
            inside = earlier is not call and any(part is earlier.node for part in ast.walk(call.node))
            if inside or (set(earlier.results) - {variable, ""}) & call.used:
                network.add_edge(earlier.name, call.name)
    if consumer is None or not nx.has_path(network, consumer.name, producer.name):
        return []
    return list(nx.shortest_path(network, consumer.name, producer.name))


def _declaration(producer: _Call, variable: str) -> str:
    outputs = producer.stage.definition.outputs
    index = producer.results.index(variable)
    item = outputs[index].item if index < len(outputs) else Any
    kind = "latest" if item is Weights else "stream"
    shown = type_name(item)
    # Our own item types are reached through the package.
    prefix = "ebrl." if getattr(item, "__module__", "") == "ebrl.graph.items" else ""
    return f"`{variable} = ebrl.{kind}({prefix}{shown})`"
