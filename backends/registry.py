"""Backends by name: entry points (ours like anyone's) and decorators. Importing this imports no backend."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from ebrl.errors import UsageError, did_you_mean

Factory = Callable[..., Any]
F = TypeVar("F", bound=Factory)

SIMULATORS = "ebrl.simulators"
POLICIES = "ebrl.policies"
ACCELERATORS = "ebrl.accelerators"

_KIND = {SIMULATORS: "simulator", POLICIES: "policy", ACCELERATORS: "accelerator"}
_registered: dict[str, dict[str, Factory]] = {group: {} for group in _KIND}
_announced: dict[str, dict[str, EntryPoint]] = {group: {} for group in _KIND}


def register_simulator(name: str) -> Callable[[F], F]:
    """Make a factory ``(target, **options) -> Simulator`` known as ``name:target``; wins over an entry point."""
    return _register(SIMULATORS, name)


def register_policy(name: str) -> Callable[[F], F]:
    """Make a factory ``(spec, **options) -> Policy`` known as `name`; wins over an entry point."""
    return _register(POLICIES, name)


def register_accelerator(name: str) -> Callable[[F], F]:
    """Make a factory ``() -> Accelerator`` known as `name`; wins over an entry point."""
    return _register(ACCELERATORS, name)


def simulator_names() -> list[str]:
    return _names(SIMULATORS)


def policy_names() -> list[str]:
    return _names(POLICIES)


def accelerator_names() -> list[str]:
    return _names(ACCELERATORS)


def load_simulator(name: str) -> Factory:
    """The factory ``(target, **options) -> Simulator`` of a backend.

    Raises UsageError when no backend has this name or its module cannot be imported.
    """
    return _load(SIMULATORS, name)


def load_policy(name: str) -> Factory:
    """The factory ``(spec, **options) -> Policy`` of a backend; errors as `load_simulator`."""
    return _load(POLICIES, name)


def load_accelerator(name: str) -> Factory:
    """The factory ``() -> Accelerator`` of a backend; errors as `load_simulator`."""
    return _load(ACCELERATORS, name)


def simulator_origin(name: str) -> tuple[str, str]:
    """(module, name in it) of a backend's factory, for another interpreter: the module is not imported.

    Raises UsageError when no backend has this name.
    """
    if (factory := _registered[SIMULATORS].get(name)) is not None:
        return factory.__module__, factory.__qualname__
    point = _entry_point(SIMULATORS, name)
    return point.module, point.attr


def locate(backend: str, target: str) -> tuple[tuple[str, str], str]:
    """The factory behind an address as `simulator_origin` gives it, and the target that it takes.

    ``name:target`` of a backend, else ``module:Factory``, which takes an empty one.
    """
    if backend in simulator_names():
        return simulator_origin(backend), target
    return (backend, target), ""


def registered() -> dict[str, dict[str, tuple[str, str]]]:
    """What decorators made known in this process, for `announce` in another: group -> name -> (module, name in it)."""
    return {
        group: {name: (factory.__module__, factory.__qualname__) for name, factory in factories.items()}
        for group, factories in _registered.items()
    }


def announce(backends: Mapping[str, Mapping[str, tuple[str, str]]]) -> None:
    """Know what another process `registered`; the modules are imported where a backend is loaded."""
    for group, origins in backends.items():
        for name, (module, attribute) in origins.items():
            _announced[group][name] = EntryPoint(name, f"{module}:{attribute}", group)


def is_importable(name: str) -> bool:
    """Whether there is a module `name`: ``name:Factory`` then is an address without any registration."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def parse_uri(uri: str) -> tuple[str, str, dict[str, Any]]:
    """``"robosuite:Lift?horizon=40"`` -> ``("robosuite", "Lift", {"horizon": 40})``.

    Values are Python literals where they look like one, ``true``, ``false`` and ``none`` in any case
    included; everything else is text. Only the first colon and the last question mark separate.
    """
    address, mark, query = uri.rpartition("?") if "?" in uri else (uri, "", "")
    backend, colon, target = address.partition(":")
    if not (backend and colon and target):
        raise UsageError(
            f"{uri!r} is not a simulator address", hint="write backend:target, for example 'robosuite:Lift?horizon=40'"
        )
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(mark))
    except ValueError:
        raise UsageError(f"the options of {uri!r} cannot be read", hint="write ?name=value&name=value") from None
    options: dict[str, Any] = {}
    for key, text in pairs:
        if key in options:
            raise UsageError(f"option {key!r} stands twice in {uri!r}")
        options[key] = _value(text)
    return backend, target, options


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _register(group: str, name: str) -> Callable[[F], F]:
    def add(factory: F) -> F:
        known = _registered[group].get(name)
        # A workflow file may be imported twice (driver, worker): the same definition is no clash.
        if known is not None and _origin(known) != _origin(factory):
            raise UsageError(f"two {_KIND[group]} backends are named {name!r}: {_origin(known)} and {_origin(factory)}")
        _registered[group][name] = factory
        return factory

    return add


def _origin(factory: Factory) -> str:
    return f"{factory.__module__}.{factory.__qualname__}"


def _installed(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)} | _announced[group]


def _names(group: str) -> list[str]:
    return sorted({*_registered[group], *_installed(group)})


def _entry_point(group: str, name: str) -> EntryPoint:
    if (point := _installed(group).get(name)) is None:
        raise UsageError(f"no {_KIND[group]} backend is named {name!r}", hint=did_you_mean(name, _names(group)))
    return point


def _load(group: str, name: str) -> Factory:
    if name in _registered[group]:
        return _registered[group][name]
    point = _entry_point(group, name)
    try:
        factory: Factory = point.load()
    except (ImportError, AttributeError) as cause:
        raise UsageError(
            f"the {_KIND[group]} backend {name!r} ({point.value}) cannot be imported",
            detail=f"{type(cause).__name__}: {cause}",
            hint="install the package that provides it, or its dependencies, in this interpreter",
        ) from cause
    return factory
