from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.errors import UsageError
from ebrl.graph.parameters import convert, parameter_types, settings_from_text


class Side(enum.Enum):
    left = 1
    right = 2


def flow(task: str, num_epoch: int = 3, rate=0.1, hidden: tuple[int, ...] = (64,), seed: int | None = None) -> None: ...


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("8", int, 8),
        ("1e-3", float, 0.001),
        ("8", float, 8.0),
        ("8", str, "8"),
        ("a=b", str, "a=b"),
        ("true", bool, True),
        ("No", bool, False),
        ("none", int | None, None),
        ("7", int | None, 7),
        ("7", str | int, 7),
        ("x", int | str, "x"),
        ("none", str | None, None),
        ("(64, 64)", tuple[int, ...], (64, 64)),
        ("64,64", tuple[int, ...], (64, 64)),
        ("64", tuple[int, ...], (64,)),
        ("", tuple[int, ...], ()),
        ("a,2", tuple[str, int], ("a", 2)),
        ("[1, 2]", list[float], [1.0, 2.0]),
        ("1,b", list, [1, "b"]),
        ("b", Literal["a", "b"], "b"),
        ("2", Literal[1, 2], 2),
        ("left", Side, Side.left),
        ("2", Side, Side.right),
        ("right", Side | None, Side.right),
        ("none", Literal["a"] | None, None),
        ("runs/a", Path, Path("runs/a")),
        ("{'a': 1}", dict[str, int], {"a": 1}),
        ("[1]", Any, [1]),
        ("text", Any, "text"),
    ],
)
def test_convert(text: str, annotation: Any, value: Any) -> None:
    converted = convert(text, annotation)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("text", "annotation"),
    [("x", int), ("1.5", int), ("maybe", bool), ("c", Literal["a"]), ("1", tuple[int, int]), ("3", dict), ("up", Side)],
)
def test_what_does_not_fit_is_refused(text: str, annotation: Any) -> None:
    with pytest.raises(ValueError):
        convert(text, annotation)


@given(st.integers() | st.floats(allow_nan=False) | st.booleans())
def test_numbers_come_back(value: float) -> None:
    assert convert(str(value), type(value)) == value


@given(st.lists(st.integers()))
def test_sequences_come_back(values: list[int]) -> None:
    assert convert(str(values), list[int]) == values
    assert convert(str(tuple(values)), tuple[int, ...]) == tuple(values)


def test_settings() -> None:
    texts = ["num_epoch=5", "rate=1e-4", "hidden=32,32", "seed=none", "task=a=b"]
    expected = {"num_epoch": 5, "rate": 1e-4, "hidden": (32, 32), "seed": None, "task": "a=b"}
    assert settings_from_text(flow, texts) == expected
    assert parameter_types(flow)["rate"] is float


def test_unknown_key_suggests() -> None:
    with pytest.raises(UsageError) as caught:
        settings_from_text(flow, ["num-epochs=3"])
    assert caught.value.message == "workflow 'flow' has no parameter 'num-epochs'"
    assert caught.value.hint == "did you mean 'num_epoch'?"
    assert "test_parameters.py:" in caught.value.place


def test_bad_value_names_the_type() -> None:
    with pytest.raises(UsageError, match="--set num_epoch: 'three' is no int"):
        settings_from_text(flow, ["num_epoch=three"])
    with pytest.raises(UsageError, match="--set num_epoch has no value"):
        settings_from_text(flow, ["num_epoch"])


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        (Literal["ppo", "grpo"], "one of: ppo, grpo"),
        (Literal["a", 2] | None, "one of: a, 2, none"),
        (Side, "one of: left (1), right (2)"),
        (bool, "one of: true, false"),
        (int, ""),
        (Literal["a"] | int, ""),
    ],
)
def test_a_value_that_is_no_choice_is_answered_with_the_choices(annotation: Any, hint: str) -> None:
    def chooses(how: Any) -> None: ...

    chooses.__annotations__["how"] = annotation
    with pytest.raises(UsageError) as caught:
        settings_from_text(chooses, ["how=wrong"])
    assert caught.value.hint == hint
