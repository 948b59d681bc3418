# ruff: noqa: UP006, UP007, UP045
from __future__ import annotations

import collections.abc as abc
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebrl
from ebrl.graph.items import ActionChunk, Batch, Observation, Step, Trajectory, Weights
from ebrl.graph.ports import MISSING, assignable, injected, input_port, output_ports, type_name, type_names
from ebrl.runtime.environments import Environments

T = TypeVar("T")
Item = TypeVar("Item", bound=Observation)
Number = TypeVar("Number", int, float)
Metres = NewType("Metres", float)
F32, F64 = np.dtype[np.float32], np.dtype[np.float64]


class Camera(Observation): ...


class Box(Generic[T]): ...


class CameraBox(Box[Camera]): ...


class Crate(Box[T], Generic[T]): ...


class Frames(Batch[Camera]): ...


class Named(Protocol):
    name: str


class Pose(TypedDict):
    x: float


TRUTH = [
    # produced, wanted, assignable
    (int, int, True),
    (int, str, False),
    (bool, int, True),
    (int, bool, False),
    (int, float, True),
    (float, int, False),
    (int, complex, True),
    (None, None, True),
    (None, int, False),
    (int, Any, True),
    (Any, int, True),
    (MISSING, int, True),
    (int, object, True),
    (object, int, False),
    # subclasses
    (Camera, Observation, True),
    (Observation, Camera, False),
    (Observation, dict, True),
    (Observation, Mapping[str, Any], True),
    (Step, tuple, True),
    # unions
    (int, int | str, True),
    (int, Union[str, None], False),
    (int | str, int, False),
    (int | str, int | str | None, True),
    (bool | int, int, True),
    (Optional[int], int, False),
    (int, Optional[int], True),
    (None, Optional[int], True),
    # Annotated
    (Annotated[int, "metres"], int, True),
    (int, Annotated[int, "metres"], True),
    (Annotated[int, ["no", "hash"]], str, False),
    (Annotated[int, 1] | None, int | None, True),
    # generics
    (list[int], list[int], True),
    (list[int], list[str], False),
    (list[int], list, True),
    (list, list[int], True),
    (list[int], list[float], True),
    (list[int], Sequence[int], True),
    (list[int], Sequence[str], False),
    (Sequence[int], list[int], False),
    (dict[str, int], Mapping[str, int], True),
    (dict[str, int], Mapping[int, int], False),
    (list[Camera], typing.List[Observation], True),
    (Batch[Camera], Batch[Observation], True),
    (Batch[Observation], Batch[Camera], False),
    (Batch[Observation], Sequence[Observation], True),
    (Batch[Observation], Sequence[int], False),
    (Frames, Batch[Observation], True),
    (Frames, Batch[Trajectory], False),
    (CameraBox, Box[Observation], True),
    (CameraBox, Box[int], False),
    (Crate[int], Box[int], True),
    (Crate[int], Box[str], False),
    (Crate, Box[str], True),
    (np.ndarray[Any, F32], np.ndarray[Any, F32], True),
    (np.ndarray[Any, F32], np.ndarray[Any, F64], False),
    (np.ndarray[Any, F32], np.ndarray, True),
    # tuples
    (tuple[int, str], tuple[int, str], True),
    (tuple[int, str], tuple[int, int], False),
    (tuple[int, int], tuple[int, ...], True),
    (tuple[int, str], tuple[int, ...], False),
    (tuple[int, ...], tuple[int, int], True),
    (tuple[str, ...], tuple[int, int], False),
    (tuple[int], tuple[int, int], False),
    (tuple[int, int], Sequence[int], True),
    # literals
    (Literal["a"], str, True),
    (Literal["a"], int, False),
    (Literal["a"], Literal["a", "b"], True),
    (Literal["a", "c"], Literal["a", "b"], False),
    (str, Literal["a"], False),
    # new types, type variables
    (Metres, float, True),
    (float, Metres, False),
    (Metres, Metres, True),
    (int, T, True),
    (T, int, True),
    (Camera, Item, True),
    (int, Item, False),
    (str, Number, False),
    # what cannot be asked is allowed
    (int, Named, True),
    (dict, Pose, True),
    # callables
    (Callable[[int], int], Callable[[int], float], True),
    (Callable[[int], str], Callable[[int], int], False),
    (Callable[[int], str], Callable, True),
    (int, Callable[[int], int], False),
]


@pytest.mark.parametrize(("produced", "wanted", "fits"), TRUTH, ids=lambda value: str(value))
def test_assignable(produced: Any, wanted: Any, fits: bool) -> None:
    assert assignable(produced, wanted) is fits


SIMPLE = st.sampled_from([int, str, bool, float, bytes, Observation, Camera, Trajectory, type(None)])
TYPES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.builds(lambda a: list[a], inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | st.builds(lambda a: Batch[a], inner)
        | st.builds(lambda a, b: tuple[a, b], inner, inner)
        | st.builds(lambda a: Annotated[a, "note"], inner)
    ),
    max_leaves=6,
)


@given(TYPES, TYPES)
def test_assignable_is_reflexive_and_a_union_takes_its_members(first: Any, second: Any) -> None:
    assert assignable(first, first)
    assert assignable(first, first | second)
    assert assignable(first | second, first) is assignable(second, first)
    assert type_name(first)


def test_input_ports() -> None:
    port = input_port("x", Batch[Observation])
    assert (port.item, port.batched, port.required, port.type) == (Observation, True, True, Batch[Observation])
    assert input_port("x", Annotated[Optional[Batch[Camera]], "note"]).item is Camera
    assert not input_port("x", Weights | None).required
    assert not input_port("x", Weights, default=None).required
    assert input_port("x", Batch).item is Any
    assert input_port("x", Frames).item is Camera
    assert input_port("x", int | str | None).item == int | str
    # A stage never takes an iterator of items: this is one item.
    assert input_port("x", Iterator[int]).item == Iterator[int]


@pytest.mark.parametrize(
    ("annotation", "ports"),
    [
        (None, []),
        (Trajectory, [("output", Trajectory, False)]),
        (Optional[Trajectory], [("output", Trajectory, False)]),
        (Iterator[Step], [("output", Step, True)]),
        (typing.Iterator[Step], [("output", Step, True)]),
        (abc.Generator[Step, None, None], [("output", Step, True)]),
        (Iterator[Trajectory | None], [("output", Trajectory, True)]),
        (Batch[ActionChunk], [("output", ActionChunk, True)]),
        (tuple[int, str], [("output_1", int, False), ("output_2", str, False)]),
        (tuple[int, Iterator[str]], [("output_1", int, False), ("output_2", str, True)]),
        (Optional[tuple[int, str]], [("output_1", int, False), ("output_2", str, False)]),
        (tuple[int, ...], [("output", tuple[int, ...], False)]),
        (Iterator[tuple[int, str]], [("output", tuple[int, str], True)]),
        (Step, [("output", Step, False)]),
        (str, [("output", str, False)]),
        (MISSING, [("output", MISSING, False)]),
    ],
    ids=str,
)
def test_output_ports(annotation: Any, ports: list[tuple[str, Any, bool]]) -> None:
    assert [(port.name, port.item, port.batched) for port in output_ports(annotation)] == ports


def test_injected_parameters() -> None:
    class Arm:
        def reset(self, seed: int) -> Observation: ...
        def step(self, action: Any) -> Step: ...
        def close(self) -> None: ...

    assert injected(ebrl.Simulator) == "simulator"
    assert injected(Arm) == "simulator"
    assert injected(Annotated[ebrl.Policy, "frozen"] | None) == "policy"
    assert injected(ebrl.State) == "state"
    assert injected(Environments) == "environments"
    for annotation in (int, Trajectory, Batch[Observation], Any, MISSING, None, T):
        assert injected(annotation) is None


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (Batch[Observation], "Batch[Observation]"),
        (Optional[int], "int | None"),
        (Union[int, str], "int | str"),
        (Annotated[int, "note"], "int"),
        (tuple[int, ...], "tuple[int, ...]"),
        (None, "None"),
        (Any, "Any"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Callable[[int], str], "Callable[[int], str]"),
        (T, "T"),
        (Metres, "Metres"),
        (MISSING, "unannotated"),
    ],
    ids=str,
)
def test_type_name(annotation: Any, name: str) -> None:
    assert type_name(annotation) == name


def test_equal_names_are_told_apart_by_module() -> None:
    other = type("Camera", (), {"__module__": "elsewhere"})
    assert type_names(Camera, other) == (f"{Camera.__module__}.Camera", "elsewhere.Camera")
    assert type_names(Camera, int) == ("Camera", "int")
