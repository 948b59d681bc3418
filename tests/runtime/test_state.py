"""What stages keep from call to call, and across a resume."""

from __future__ import annotations

from typing import Any

from ebrl.runtime.reporting import State


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def test_objects_and_values_survive_a_resume() -> None:
    state = State()
    state.keep("counter", Counter).count = 3
    state["version"] = 7
    resumed = State()
    resumed.restore(state.save())
    assert resumed["version"] == 7
    assert resumed.keep("counter", Counter).count == 3
    assert resumed.keep("counter", Counter) is resumed.keep("counter", Counter)


def test_what_no_call_has_asked_for_is_not_lost() -> None:
    state = State()
    state.keep("counter", Counter).count = 3
    resumed = State()
    resumed.restore(state.save())
    again = State()
    again.restore(resumed.save())
    assert again.keep("counter", Counter).count == 3
