"""What a stage function takes along to its worker: closure variables, module globals, defaults.

The function is pickled with cloudpickle and sent with the run, so everything it refers to travels too:
large arrays would make every start slow, and locks or open files cannot travel at all.
"""

from __future__ import annotations

import dis
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

import cloudpickle

from ebrl.errors import Finding
from ebrl.graph.draft import Draft
from ebrl.graph.model import Node

LIMIT_BYTES = 1 << 20


def captures(function: Callable[..., Any]) -> dict[str, Any]:
    """Captured values by the name under which the function's code knows them."""
    found = _cells(function)
    module = function.__globals__
    found.update({name: module[name] for name in sorted(set(_global_names(function.__code__))) if name in module})
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            found.setdefault(parameter.name, parameter.default)
    return found


def pickled_bytes(value: Any) -> int | None:
    """Size of the pickled value, or None where it cannot be pickled."""
    counter = _Counter()
    try:
        _Pickler(counter).dump(value)
    except Exception:  # a __reduce__ may raise anything
        return None
    return counter.size


def culprit(name: str, value: Any, depth: int = 6) -> tuple[str, str]:
    """(path such as ``tracker.lock``, type name) of the innermost part that cannot be pickled."""
    if depth:
        for path, part in _parts(name, value):
            if pickled_bytes(part) is None:
                return culprit(path, part, depth - 1)
    kind = type(value)
    return name, kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def capture_size(draft: Draft) -> Iterator[Finding]:
    """What a stage takes along to its worker is small."""
    for node, name, value, place in _travelling(draft):
        size = pickled_bytes(value)
        if size is not None and size > LIMIT_BYTES:
            yield Finding(
                rule="capture-size",
                where=f"{node.name}.{name}",
                message=f"the stage takes along {name!r} of {size / 2**20:.1f} MiB; at most 1 MiB may travel with it",
                place=place,
                hint="load it inside the stage, and keep it in a parameter of type State",
            )


def capture_pickle(draft: Draft) -> Iterator[Finding]:
    """What a stage takes along to its worker can be pickled."""
    for node, name, value, place in _travelling(draft):
        if pickled_bytes(value) is None:
            path, kind = culprit(name, value)
            yield Finding(
                rule="capture-pickle",
                where=f"{node.name}.{name}",
                message=f"the stage takes along {name!r}, which cannot be pickled: {path} is a {kind}",
                place=place,
                hint=f"create {path} inside the stage",
            )


def _travelling(draft: Draft) -> Iterator[tuple[Node, str, Any, str]]:
    """(node, name, value, file:line) of plain arguments and captures."""
    seen: set[int] = set()
    for node in draft.graph.nodes.values():
        ports = {port.name for port in node.stage.inputs}
        yield from ((node, name, value, node.place) for name, value in node.values.items() if name not in ports)
        if id(node.stage.function) not in seen:
            seen.add(id(node.stage.function))
            for name, value in captures(node.stage.function).items():
                yield node, name, value, node.stage.place


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """As cloudpickle, but an open text file is refused: a copy of its contents is not what the stage wants."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, io.TextIOWrapper) and obj not in (sys.stdin, sys.stdout, sys.stderr):
            raise TypeError("an open file")
        return super().reducer_override(obj)


class _Counter:
    """A file that only counts: pickling a large value must not double its memory."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.size += size
        return size


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"{name}[{index}]", part) for index, part in enumerate(value))
    elif inspect.isfunction(value):
        yield from captures(value).items()
    elif inspect.ismethod(value):
        yield name, value.__self__
    elif not inspect.ismodule(value) and not inspect.isclass(value):
        yield from ((f"{name}.{attribute}", part) for attribute, part in getattr(value, "__dict__", {}).items())


def _cells(function: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
