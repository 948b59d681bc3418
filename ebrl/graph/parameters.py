"""Parameters of a workflow, and ``--set key=value`` in the types that their annotations ask for."""

from __future__ import annotations

import ast
import enum
import inspect
import pathlib
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args, get_origin

from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.ports import MISSING, plain, type_name
from ebrl.graph.source import function_place

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotation by parameter; where there is none, the type of the default, else `Any`."""
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise UsageError(
            f"its annotations cannot be read: {type(error).__name__}: {error}",
            where=function.__name__,
            place=function_place(function),
        ) from error
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        guess = Any if parameter.default in (MISSING, None) else type(parameter.default)
        found[name] = hints.get(name, guess)
    return found


def settings_from_text(function: Callable[..., Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Arguments for a workflow function from ``key=value`` texts; UsageError names the nearest parameter."""
    known = parameter_types(function)
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            raise UsageError(f"--set {assignment} has no value", hint="write --set key=value")
        if key not in known:
            raise UsageError(
                f"workflow {function.__name__!r} has no parameter {key!r}",
                place=function_place(function),
                hint=did_you_mean(key, known),
            )
        try:
            settings[key] = convert(text, known[key])
        except ValueError:
            raise UsageError(
                f"--set {key}: {text!r} is no {type_name(known[key])}",
                place=function_place(function),
                hint=_choices(known[key]),
            ) from None
    return settings


def convert(text: str, annotation: Any) -> Any:
    """The value of type `annotation` that `text` spells; ValueError where it spells none."""
    annotation = plain(annotation)
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _first(text, members(annotation))
    if origin is Literal:
        return _choice(text, {str(value): value for value in arguments})
    if origin is bool:
        return _choice(text.lower(), {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)})
    if origin is types.NoneType:
        return _choice(text.lower(), {"none": None, "": None})
    if origin in (tuple, list):
        return _sequence(text, origin, arguments)
    if origin in (int, float, str, pathlib.Path):
        return origin(text)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _choice(text, {**{str(member.value): member for member in origin}, **origin.__members__})
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if origin is not Any and isinstance(origin, type) and not isinstance(value, origin):
        raise ValueError(text)
    return value


def members(annotation: Any) -> tuple[Any, ...]:
    """The types that a value may have: those of a union, else `annotation` alone."""
    annotation = plain(annotation)
    return get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType) else (annotation,)


def _choices(annotation: Any) -> str:
    """A hint that lists what may be written, where that is a list."""
    words: list[str] = []
    for member in members(annotation):
        member = plain(member)
        if get_origin(member) is Literal:
            words += map(str, get_args(member))
        elif member is bool:
            words += ["true", "false"]
        elif member is types.NoneType:
            words.append("none")
        elif isinstance(member, type) and issubclass(member, enum.Enum):
            words += [f"{name} ({choice.value})" for name, choice in member.__members__.items()]
        else:
            return ""
    return f"one of: {', '.join(words)}"


def _first(text: str, choices: tuple[Any, ...]) -> Any:
    # Text fits everything, so it comes last: "8" for `str | int` is the number.
    for member in sorted(choices, key=lambda member: (plain(member) is str, plain(member) is not types.NoneType)):
        try:
            return convert(text, member)
        except ValueError:
            continue
    raise ValueError(text)


def _choice(text: str, values: dict[str, Any]) -> Any:
    if text not in values:
        raise ValueError(text)
    return values[text]


def _sequence(text: str, container: Any, arguments: tuple[Any, ...]) -> Any:
    inner = text.strip().removeprefix("(").removesuffix(")").removeprefix("[").removesuffix("]")
    parts = [part.strip() for part in inner.split(",") if part.strip()]
    if not arguments:
        members: list[Any] = [Any] * len(parts)
    elif container is list or (len(arguments) == 2 and arguments[1] is Ellipsis):
        members = [arguments[0]] * len(parts)
    else:
        members = list(arguments)
    if len(members) != len(parts):
        raise ValueError(text)
    return container(convert(part, member) for part, member in zip(parts, members, strict=True))
