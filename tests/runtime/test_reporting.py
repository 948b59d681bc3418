from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import ebrl
from ebrl.runtime.reporting import Report, State, collect


class Optimizer:
    """Keeps a number, as optimisers do."""

    def __init__(self) -> None:
        self.moment = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"moment": self.moment}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moment = state["moment"]


def test_outside_a_run_nothing_happens() -> None:
    ebrl.report(loss=1.0)
    ebrl.stop("enough")


def test_what_is_reported_is_collected() -> None:
    with collect() as found:
        ebrl.report(loss=np.float32(0.5), kl=1)
        ebrl.report(loss=0.25)
        with collect() as inner:
            ebrl.report(reward=2)
        ebrl.stop("solved")
    ebrl.report(late=1.0)
    assert found == Report({"loss": 0.25, "kl": 1.0}, "solved")
    assert inner == Report({"reward": 2.0})
    assert all(type(value) is float for value in found.metrics.values())


def test_an_error_ends_the_collection() -> None:
    with pytest.raises(ZeroDivisionError), collect() as found:
        ebrl.report(loss=1 / 0)
    ebrl.report(loss=1.0)
    assert found.metrics == {}


def test_the_factory_is_called_once() -> None:
    state = State()
    first = state.keep("optimizer", Optimizer)
    assert state.keep("optimizer", Optimizer) is first


def test_state_survives_a_resume() -> None:
    state = State()
    state.keep("optimizer", Optimizer).moment = 0.5
    state["steps"] = 7
    saved = pickle.loads(pickle.dumps(state.save()))
    again = State()
    again.restore(saved)
    assert again["steps"] == 7
    assert again.keep("optimizer", Optimizer).moment == 0.5
    again["optimizer"].moment = 1.0
    assert again.keep("optimizer", Optimizer).moment == 1.0


def test_restoring_replaces_what_was_there() -> None:
    state = State()
    state["steps"], state["extra"] = 7, 1
    state.restore({"steps": (False, 3)})
    assert dict(state) == {"steps": 3}


def test_a_state_becomes_again_what_it_was_with_the_same_objects() -> None:
    state = State()
    optimizer = state.keep("optimizer", Optimizer)
    optimizer.moment, state["version"], state["seen"] = 1.0, 3, [1, 2]
    saved = pickle.loads(pickle.dumps(state.save()))
    for _ in range(2):
        optimizer.moment, state["version"], state["new"] = 9.0, 4, True
        state["seen"].append(3)
        state.rewind(saved)
        assert state.keep("optimizer", Optimizer) is optimizer and optimizer.moment == 1.0
        assert {name: value for name, value in state.items() if name != "optimizer"} == {"version": 3, "seen": [1, 2]}


def test_an_object_that_is_gone_is_made_again_as_it_was() -> None:
    state = State()
    state.keep("optimizer", Optimizer).moment = 2.0
    saved = state.save()
    del state["optimizer"]
    state.rewind(saved)
    assert state.keep("optimizer", Optimizer).moment == 2.0
