from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ebrl.graph.capture import captures, culprit, pickled_bytes

TABLE = np.zeros(10)
UNUSED = np.zeros(10)


class Tracker:
    def __init__(self) -> None:
        self.parts = {"first": [1, threading.Lock()]}


def test_captures_are_closure_globals_and_defaults() -> None:
    offset = 3

    def stage(x: int, default: str = "d") -> Any:
        def nested() -> Any:
            return TABLE.UNUSED  # an attribute of that name is not the global

        return [nested() for _ in range(offset)], np.sum

    assert set(captures(stage)) == {"offset", "TABLE", "np", "default"}


def test_a_closure_variable_that_is_not_assigned_yet_is_left_out() -> None:
    def stage() -> Any:
        return later

    assert captures(stage) == {}
    later = 1


def test_sizes() -> None:
    assert (size := pickled_bytes(np.zeros(1 << 20, np.uint8))) is not None
    assert 1 << 20 <= size < (1 << 20) + 1000
    factor = 2
    assert (pickled_bytes(lambda x: x * factor) or 0) < 2000
    assert pickled_bytes(np) is not None


def test_the_innermost_part_is_named() -> None:
    assert pickled_bytes(tracker := Tracker()) is None
    assert culprit("tracker", tracker) == ("tracker.parts['first'][1]", "_thread.lock")
    lock = threading.Lock()
    assert culprit("callback", lambda: lock) == ("lock", "_thread.lock")
    with open(__file__) as file:
        assert pickled_bytes(file) is None
        assert culprit("log", {"file": file}) == ("log['file']", "_io.TextIOWrapper")


def test_own_reducers_may_raise_anything() -> None:
    class Stubborn:
        def __reduce__(self) -> Any:
            raise KeyError("no")

    assert pickled_bytes(Stubborn()) is None
