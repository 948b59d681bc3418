"""Typed ports from annotations, and the question which output may feed which input.

`assignable` refuses only what is surely wrong: where a type leaves something open (`Any`, a bare
generic, a type variable, a protocol that cannot be asked), the edge is allowed. Type arguments are
compared covariantly, because items are handed over and never written back.
"""

from __future__ import annotations

import collections.abc as abc
import functools
import inspect
import operator
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin

from ebrl.graph.items import ActionChunk, Batch, Episode, Observation, Step, Trajectory, Weights
from ebrl.graph.model import Port

MISSING: Any = inspect.Parameter.empty
"""Stands for an annotation or default that was not written."""

ITEM_TYPES = (ActionChunk, Episode, Observation, Step, Trajectory, Weights)
"""Types that travel on edges only: a parameter of such a type is a port, never a setting."""

_CALLABLE: Any = abc.Callable
_SEVERAL_OUT = (Batch, abc.Iterator, abc.Iterable, abc.Generator)

# By qualified name, because this layer must not import the runtime.
_INJECTED = {
    "ebrl.backends.protocols.Simulator": "simulator",
    "ebrl.backends.protocols.Policy": "policy",
    "ebrl.runtime.environments.Environments": "environments",
    "ebrl.runtime.reporting.State": "state",
}
_METHODS = {"policy": ("act", "weights", "load"), "simulator": ("reset", "step", "close")}


def injected(annotation: Any) -> str | None:
    """``simulator``, ``policy``, ``environments`` or ``state`` for a parameter that the engine fills; else None.

    A concrete class counts as the protocol whose methods it has.
    """
    annotation, _, _ = item_of(annotation, several=())
    if not isinstance(annotation, type):
        return None
    for base in annotation.__mro__:
        if (role := _INJECTED.get(f"{base.__module__}.{base.__qualname__}")) is not None:
            return role
    for role, methods in _METHODS.items():
        if all(callable(getattr(annotation, method, None)) for method in methods):
            return role
    return None


def plain(annotation: Any) -> Any:
    """The type itself, without `Annotated` and `type` aliases; None becomes `NoneType`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return types.NoneType if annotation is None else annotation


def item_of(annotation: Any, several: tuple[Any, ...] = (Batch,)) -> tuple[Any, bool, bool]:
    """(type of one item, many in one call, may be None) of an annotation; `several` are the containers that count."""
    many = optional = False
    while True:
        annotation = plain(annotation)
        members = _members(annotation)
        if len(members) > 1 and types.NoneType in members:
            annotation = _union(member for member in members if member is not types.NoneType)
            optional = True
            continue
        container = _container(annotation, several)
        if container is None:
            return annotation, many, optional
        many = True
        annotation = (_base_arguments(annotation, container) or (Any,))[0]


def input_port(name: str, annotation: Any, default: Any = MISSING) -> Port:
    item, many, optional = item_of(annotation)
    return Port(name=name, type=annotation, item=item, batched=many, required=default is MISSING and not optional)


def output_ports(annotation: Any) -> tuple[Port, ...]:
    """Ports of a return annotation: none for None, one per element of a fixed tuple, otherwise one.

    One output is called ``output``, several ``output_1``, ``output_2`` …
    """
    inner, many, _ = item_of(annotation, _SEVERAL_OUT)
    if plain(annotation) is types.NoneType:
        return ()
    elements = get_args(inner)
    if many or get_origin(inner) is not tuple or Ellipsis in elements or len(elements) < 2:
        return (_output("output", annotation),)
    return tuple(_output(f"output_{number}", element) for number, element in enumerate(elements, 1))


def _output(name: str, annotation: Any) -> Port:
    item, many, _ = item_of(annotation, _SEVERAL_OUT)
    return Port(name=name, type=annotation, item=item, batched=many)


def assignable(produced: Any, wanted: Any) -> bool:
    """Whether every value of type `produced` may be passed where `wanted` is annotated."""
    produced, wanted = plain(produced), plain(wanted)
    if any(side in (Any, MISSING) for side in (produced, wanted)) or produced == wanted:
        return True
    if isinstance(produced, NewType):
        return assignable(produced.__supertype__, wanted)
    if isinstance(wanted, NewType):
        return False
    if isinstance(produced, TypeVar) or isinstance(wanted, TypeVar):
        return assignable(_bound(produced), _bound(wanted))
    if len(members := _members(produced)) > 1:
        return all(assignable(member, wanted) for member in members)
    if len(members := _members(wanted)) > 1:
        return any(assignable(produced, member) for member in members)
    if get_origin(wanted) is Literal:
        return get_origin(produced) is Literal and set(get_args(produced)) <= set(get_args(wanted))
    if get_origin(produced) is Literal:
        return all(assignable(type(value), wanted) for value in get_args(produced))
    return _class_assignable(produced, wanted)


def _class_assignable(produced: Any, wanted: Any) -> bool:
    have, want = get_origin(produced) or produced, get_origin(wanted) or wanted
    if not (isinstance(have, type) and isinstance(want, type)):
        return False
    if not _subclass(have, want):
        return False
    wanted_arguments = get_args(wanted)
    known = _base_arguments(produced, want)
    if not wanted_arguments or known is None:
        return True
    if want is tuple:
        return _tuple_assignable(known, wanted_arguments)
    if want is _CALLABLE:
        return assignable(known[-1], wanted_arguments[-1])
    if len(known) != len(wanted_arguments):
        return True
    return all(map(assignable, known, wanted_arguments))


def _tuple_assignable(known: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    if Ellipsis in wanted:
        return all(assignable(element, wanted[0]) for element in known if element is not Ellipsis)
    if Ellipsis in known:
        return all(assignable(known[0], element) for element in wanted)
    return len(known) == len(wanted) and all(map(assignable, known, wanted))


def _subclass(have: type, want: type) -> bool:
    if want is float and issubclass(have, int):
        return True
    if want is complex and issubclass(have, (int, float)):
        return True
    try:
        return issubclass(have, want)
    except TypeError:  # a typed dict, or a protocol that has data or is not runtime-checkable
        return True


def _base_arguments(annotation: Any, base: Any) -> tuple[Any, ...] | None:
    """Type arguments of the generic class `base` as `annotation` fills them; None where that is open."""
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is base:
        return arguments or None
    given = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
    for parent in getattr(origin, "__orig_bases__", ()):
        parent_class = get_origin(parent)
        if not isinstance(parent_class, type) or not _subclass(parent_class, base):
            continue
        if parameters := getattr(parent, "__parameters__", ()):
            parent = parent[tuple(given.get(parameter, Any) for parameter in parameters)]
        return _base_arguments(parent, base)
    # Built-in containers keep no generic bases; with equally many arguments they correspond.
    is_builtin = getattr(origin, "__module__", "") in ("builtins", "collections", "collections.abc")
    return arguments if arguments and is_builtin else None


def _container(annotation: Any, several: tuple[Any, ...]) -> Any:
    """The class of `several` that wraps the items, or None. A subclass counts for `Batch` only: a string is an
    Iterable too, yet one item."""
    origin = get_origin(annotation) or annotation
    for container in several:
        if origin is container or (container is Batch and isinstance(origin, type) and issubclass(origin, Batch)):
            return container
    return None


def _members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(plain(member) for member in get_args(annotation))
    return (annotation,)


def _union(members: Iterable[Any]) -> Any:
    return functools.reduce(operator.or_, members)


def _bound(annotation: Any) -> Any:
    if not isinstance(annotation, TypeVar):
        return annotation
    if annotation.__constraints__:
        return _union(annotation.__constraints__)
    return annotation.__bound__ or Any


def type_name(annotation: Any, *, qualified: bool = False) -> str:
    """A type as a person writes it: ``Batch[Observation]``, ``int | None``, ``tuple[int, ...]``."""
    if annotation is MISSING:
        return "unannotated"
    if isinstance(annotation, list):
        return "[" + ", ".join(type_name(part, qualified=qualified) for part in annotation) + "]"
    annotation = plain(annotation)
    if annotation is types.NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    if len(members := _members(annotation)) > 1:
        return " | ".join(type_name(member, qualified=qualified) for member in members)
    if get_origin(annotation) is Literal:
        return "Literal[" + ", ".join(map(repr, get_args(annotation))) + "]"
    origin = get_origin(annotation) or annotation
    name = getattr(origin, "__qualname__", None) or getattr(origin, "__name__", None) or str(origin)
    if qualified and getattr(origin, "__module__", "builtins") != "builtins":
        name = f"{origin.__module__}.{name}"
    if arguments := get_args(annotation):
        return name + "[" + ", ".join(type_name(part, qualified=qualified) for part in arguments) + "]"
    return str(name)


def type_names(produced: Any, wanted: Any) -> tuple[str, str]:
    """Both names, with their modules where they would read the same."""
    names = type_name(produced), type_name(wanted)
    if names[0] != names[1]:
        return names
    return type_name(produced, qualified=True), type_name(wanted, qualified=True)
