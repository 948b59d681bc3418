"""Workflow functions: what they may say, and how calling one becomes a checked graph."""

from __future__ import annotations

import ast
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

from ebrl.backends.registry import parse_uri
from ebrl.errors import EbrlError, UsageError, WorkflowError, did_you_mean
from ebrl.graph import draft, rules
from ebrl.graph.draft import DeclaredEdge, Draft
from ebrl.graph.model import Graph, PolicyRef, SimulatorRef
from ebrl.graph.parameters import settings_from_text
from ebrl.graph.premature import premature_use
from ebrl.graph.source import caller_place, function_place, parse, place, user_frames, user_traceback


class Workflow:
    """A function that declares stages and edges. Calling it with its parameters gives a checked `Graph`."""

    __name__: str
    __doc__: str | None

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.place = function_place(function)

    def __repr__(self) -> str:
        return f"<workflow {self.__name__} at {self.place}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Graph:
        """Build and check the graph; WorkflowError holds all findings."""
        if (outer := draft.current.get()) is not None:
            raise UsageError(
                f"workflow {self.__name__!r} is called inside workflow {outer.graph.name!r}",
                place=caller_place(),
                hint="put what they share into a plain function",
            )
        arguments = self._arguments(args, kwargs, caller_place())
        file = self.function.__code__.co_filename
        building = Draft(
            graph=Graph(
                name=self.__name__,
                parameters=arguments,
                place=self.place,
                folder=os.path.dirname(os.path.abspath(file)) if os.path.exists(file) else "",
            ),
            names=_assigned_names(self.function),
        )
        self._build(building, arguments)
        building.connect_declared()
        if findings := rules.check(building):
            raise WorkflowError(findings)
        return building.graph

    def with_settings(self, assignments: list[str]) -> Graph:
        """The graph for ``key=value`` texts, as the command line's ``--set`` gives them."""
        return self(**settings_from_text(self.function, assignments))

    def _build(self, building: Draft, arguments: Mapping[str, Any]) -> None:
        token = draft.current.set(building)
        try:
            self.function(**arguments)
        except EbrlError:
            raise
        except Exception as error:
            if isinstance(error, NameError):
                building.premature = premature_use(self.function, error)
            if building.premature is None:
                raise self._raised(error) from error
        finally:
            draft.current.reset(token)

    def _raised(self, error: Exception) -> UsageError:
        frames = user_frames(error)
        misspelt = error.name if isinstance(error, NameError) else None
        return UsageError(
            f"workflow {self.__name__!r} raised {type(error).__name__}: {error}",
            place=place(frames[-1].filename, frames[-1].lineno) if frames else self.place,
            detail=user_traceback(error),
            hint=did_you_mean(misspelt, self.function.__code__.co_varnames) if misspelt else "",
        )

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> dict[str, Any]:
        signature = inspect.signature(self.function)
        for key in kwargs:
            if key not in signature.parameters:
                raise UsageError(
                    f"workflow {self.__name__!r} has no parameter {key!r}",
                    place=where,
                    hint=did_you_mean(key, signature.parameters),
                )
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(
                f"workflow {self.__name__!r}: {error}", place=where, hint=f"its parameters: {signature}"
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)


def workflow(function: Callable[..., Any]) -> Workflow:
    """Make a workflow of a function that calls stages and connects them."""
    if not inspect.isfunction(function):
        raise UsageError(f"@ebrl.workflow takes a function, got {type(function).__name__}", place=caller_place())
    return Workflow(function)


def stream(item: Any) -> DeclaredEdge:
    """Declare a stream of `item` ahead of the stage that feeds it: ``x = ebrl.stream(T)``, later ``x <<= stage(...)``.

    A stream is a bounded FIFO; declared ahead it starts empty, and may close a cycle.
    """
    return _declare("stream", item, latest=False, max_staleness=0)


def latest(item: Any, max_staleness: int = 1) -> DeclaredEdge:
    """Declare a versioned register of `item` where the newest value wins: ``w = ebrl.latest(ebrl.Weights)``.

    Training accepts what was generated with weights at most `max_staleness` versions old; 0 means in step.
    """
    return _declare("latest", item, latest=True, max_staleness=max_staleness)


def _declare(word: str, item: Any, *, latest: bool, max_staleness: int) -> DeclaredEdge:
    where = caller_place(2)
    if (building := draft.current.get()) is None:
        raise UsageError(
            f"ebrl.{word} belongs inside a workflow function", place=where, hint="decorate it with @ebrl.workflow"
        )
    name = building.names.get(int(where.rpartition(":")[2]), f"{word} {len(building.declared) + 1}")
    declared = DeclaredEdge(name=name, type=item, latest=latest, max_staleness=max_staleness, place=where)
    building.declared.append(declared)
    return declared


def policy(name: str, **options: Any) -> PolicyRef:
    """Declare a policy of backend `name`; it is created later, in the workers that act or train."""
    reference = PolicyRef(backend=name, options=options)
    if (building := draft.current.get()) is not None:
        building.note_reference(reference, caller_place())
    return reference


def simulator(uri: str, **options: Any) -> SimulatorRef:
    """Declare a simulator, ``simulator("robosuite:Lift", horizon=40)``; options may also stand in the address, and
    win there: it may come from the command line, the others are the workflow's."""
    try:
        backend, target, written = parse_uri(uri)
    except UsageError as error:
        raise UsageError(error.message, place=caller_place(), hint=error.hint) from None
    reference = SimulatorRef(backend=backend, target=target, options={**options, **written})
    if (building := draft.current.get()) is not None:
        building.note_reference(reference, caller_place())
    return reference


def _assigned_names(function: Callable[..., Any]) -> dict[int, str]:
    """Variable by line for assignments of a call, so that messages can name declared edges."""
    tree = parse(function)
    if tree is None:
        return {}
    return {
        statement.value.lineno: statement.targets[0].id
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.targets[0], ast.Name)
    }
