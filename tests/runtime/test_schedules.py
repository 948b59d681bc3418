"""One workflow under all schedules, and without single mechanisms: the same engine, in earnest."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ebrl.graph.schedules import MECHANISMS, SCHEDULES, declared

from .conftest import Outcome

SMALL = ("small", "task=emulated:constant?step_s=0.002", "iterations=3")
ALL = [(name, ()) for name in SCHEDULES] + [("ebrl", (name,)) for name in MECHANISMS]
IN_TURN = [(name, without) for name, without in ALL if not declared(name, without).overlap]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("schedule", "without"), [each for each in ALL if each not in IN_TURN])
def test_rollout_and_training_overlap(launch: Callable[..., Outcome], schedule: str, without: tuple[str, ...]) -> None:
    outcome = launch(*SMALL, schedule=schedule, without=without)
    assert (outcome.summary["status"], outcome.summary["iterations"]) == ("finished", 3)
    assert outcome.summary["max_staleness_seen"] <= 1
    config = json.loads((outcome.folder / "config.json").read_text())
    assert (config["schedule"], config["without"]) == (schedule, list(without))
    plan = json.loads((outcome.folder / "plan.json").read_text())
    assert (plan["schedule"], plan["without"], plan["max_staleness"]) == (schedule, list(without), 1)


@pytest.mark.timeout(400)
def test_where_they_take_turns_all_compute_the_same_bits(launch: Callable[..., Outcome]) -> None:
    """Barriers within a rollout, groups and cores decide when a chunk is generated, not from what."""
    found = {}
    for schedule, without in [*IN_TURN, ("hybrid", ("rebinding",))]:
        outcome = launch(*SMALL, schedule=schedule, without=without, seed=5)
        assert (outcome.summary["status"], outcome.summary["max_staleness_seen"]) == ("finished", 0)
        found[schedule, without] = (outcome.folder / "policy.safetensors").read_bytes()
    assert len(found) == 6
    assert set(found.values()) == {found["sync", ()]}
