"""Shares of time, and why resources are idle: by hand, and in rehearsals small enough to reckon with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.graph.schedules import MECHANISMS, SCHEDULES, Schedule
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.rehearsal import Rehearsal
from ebrl.rehearse.truth import TrueCosts
from ebrl.rehearse.usage import (
    BUSY,
    CAUSES,
    CORES,
    GENERATION,
    SIMULATION,
    TRAINING,
    State,
    Usage,
    idle_cause,
)  # fmt: skip

from ..planner.machines import chunks, on_devices, straight

ALL: dict[str, Schedule] = {
    **SCHEDULES,
    **{f"ebrl without {name}": SCHEDULES["ebrl"].without(name) for name in MECHANISMS},
}
ALL["async without rebinding"] = SCHEDULES["async"].without("rebinding")
DIVIDED = Allocation(generation={"GPU-1": 100}, training={"GPU-0": 100}, batch=8)
_SMALL = 1e-6


def state(**changes: Any) -> State:
    """Four cores with nothing to do, one replica, and nobody who waits."""
    told = dict.fromkeys(State._fields, 0) | {"cores": 4, "replicas": 1}
    return State(**(told | {"training_busy": False, "turns": False, "transfer": False} | changes))


class Told:
    """Whatever it is told."""

    def __init__(self, told: State) -> None:
        self.told = told

    def state(self) -> State:
        return self.told


def shares(told: State) -> Any:
    usage = Usage(Told(told))
    usage.passed(2.0)
    return usage.shares()


def used(name: str, problem: Problem, steps: int = 8, allocation: Allocation = DIVIDED, **truth: Any) -> Any:
    """Shares after the first two steps, without those of calls that take next to no time."""
    found = Rehearsal(problem, allocation, TrueCosts.of(problem, **truth), schedule=ALL[name])
    found.run(2)
    found.usage.clear()
    found.run(steps)
    return {
        name: {cause: part for cause, part in row.items() if part > _SMALL}
        for name, row in found.usage.shares().items()
    }


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"asked": 3}, "starvation"),
        ({"on_devices": 1}, "starvation"),
        ({"at_barriers": 2}, "barrier"),
        ({"held": 1, "turns": True}, "barrier"),
        ({"idle": 5, "turns": True}, "barrier"),
        ({"idle": 5, "turns": True, "transfer": True}, "transfer"),
        ({"held": 1}, "admission"),
        ({"idle": 5}, "admission"),
        ({"held": 1, "transfer": True}, "transfer"),
        ({"ready": 2}, "core"),
        ({}, "environments"),
    ],
)
def test_what_idle_cores_wait_for(changes: dict[str, Any], cause: str) -> None:
    assert shares(state(**changes))[CORES] == {cause: 1.0}


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"cores_busy": 4}, "starvation"),
        ({"asked": 2}, "starvation"),
        ({"transfer": True, "at_barriers": 1}, "transfer"),
        ({"at_barriers": 1, "cores_busy": 1}, "barrier"),
        ({"held": 2, "turns": True}, "barrier"),
        ({"held": 2}, "admission"),
        ({"idle": 2}, "admission"),
        ({"idle": 2, "cores_busy": 1}, "starvation"),
    ],
)
def test_what_idle_generation_waits_for(changes: dict[str, Any], cause: str) -> None:
    told = state(**changes, shares=2)
    assert idle_cause(told) == cause
    assert shares(told)[GENERATION] == {cause: 1.0} == shares(told)[SIMULATION]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [({}, "starvation"), ({"turns": True}, "barrier"), ({"turns": True, "transfer": True}, "transfer")],
)
def test_what_idle_training_waits_for(changes: dict[str, Any], cause: str) -> None:
    assert shares(state(**changes))[TRAINING] == {cause: 1.0}


def test_idle_time_is_divided_among_those_who_wait() -> None:
    found = shares(state(cores_busy=2, asked=1, idle=2, at_barriers=1))[CORES]
    assert found == {BUSY: 0.5, "starvation": 0.125, "admission": 0.25, "barrier": 0.125}


def test_parts_that_work_are_busy() -> None:
    found = shares(state(cores_busy=4, replicas=4, replicas_busy=3, training_busy=True, shares=2, shares_busy=2))
    assert found[CORES] == {BUSY: 1.0} == found[TRAINING] == found[SIMULATION]
    assert found[GENERATION] == {BUSY: 0.75, "starvation": 0.25}


def test_it_begins_anew() -> None:
    usage = Usage(told := Told(state(cores_busy=4)))
    usage.passed(5.0)
    usage.clear()
    assert usage.shares() == {}
    told.told = state(cores_busy=1, asked=1)
    usage.passed(1.0)
    told.told = state(cores_busy=3, asked=1)
    usage.passed(3.0)
    assert usage.shares()[CORES] == pytest.approx({BUSY: 10 / 16, "starvation": 6 / 16})


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from((1, 4)), st.booleans())
def test_shares_sum_to_one(name: str, seed: int, cores: int, window: int, rendering: bool) -> None:
    changes = {"simulation": _rendering()} if rendering else {}
    problem = on_devices(2, cores=cores, environments=9, iteration=24, window=window, **changes)
    truth = TrueCosts.of(
        problem, simulation_sigma=0.4, generation_sigma=0.2, training_sigma=0.2, episode=6, episode_spread=0.5,
        reset_s=0.4, stragglers=(0,), swap_s=1.0, publish_s=0.3,
    )  # fmt: skip
    allocation = Allocation(
        simulation={"GPU-1": 50} if rendering else {}, generation={"GPU-1": 50}, training={"GPU-0": 100}, batch=5
    )
    rehearsal = Rehearsal(problem, allocation, truth, schedule=ALL[name], seed=seed)
    rehearsal.run(3)
    found = rehearsal.usage.shares()
    assert set(found) == {CORES, GENERATION, TRAINING} | ({SIMULATION} if rendering else set())
    for row in found.values():
        assert sum(row.values()) == pytest.approx(1.0)
        assert set(row) <= {BUSY, *CAUSES} and min(row.values()) > 0


def test_starvation() -> None:
    """One environment steps for 1 s and waits 3 s for its actions."""
    slow = {"generation": straight("gpu", 3.0, 0.0), "training": straight("gpu", 1e-9, 0.0)}
    found = used("ebrl", on_devices(2, cores=1, environments=1, iteration=4, simulation=chunks(1.0), **slow))
    assert found[CORES] == pytest.approx({BUSY: 0.25, "starvation": 0.75})
    assert found[GENERATION] == pytest.approx({BUSY: 0.75, "starvation": 0.25})


def test_starvation_on_devices() -> None:
    """One chunk-step takes 1 s on a core and 2 s on its share of a device."""
    simulation = chunks(1.0)
    simulation.tables.update(straight("gpu", 2.0, 0.0).tables)
    quick = {"generation": straight("gpu", 1e-9, 0.0), "training": straight("gpu", 1e-9, 0.0)}
    problem = on_devices(3, cores=1, environments=1, iteration=4, simulation=simulation, **quick)
    allocation = Allocation(simulation={"GPU-2": 100}, **{"generation": {"GPU-1": 100}, "training": {"GPU-0": 100}})
    found = used("ebrl", problem, allocation=allocation)
    assert found[CORES] == pytest.approx({BUSY: 1 / 3, "starvation": 2 / 3}, abs=1e-6)
    assert found[SIMULATION] == pytest.approx({BUSY: 2 / 3, "starvation": 1 / 3}, abs=1e-6)


def test_barriers() -> None:
    """Of two environments on two cores one takes 3 s and the other one 1 s, and waits for it."""
    quick = {"generation": straight("gpu", 1e-9, 0.0), "training": straight("gpu", 1e-9, 0.0)}
    problem = on_devices(2, cores=2, environments=2, iteration=8, window=4, simulation=chunks(1.0), **quick)
    lone = {"stragglers": (0,), "straggler_factor": 3.0}
    found = used("async", problem, **lone)
    assert found[CORES] == pytest.approx({BUSY: 4 / 6, "barrier": 2 / 6}, abs=1e-6)
    assert set(used("ebrl", problem, **lone)[CORES]) & {"barrier"} == set()


def test_turns() -> None:
    """Rollout and training take turns of 4 s each: whoever is not at work waits for the other one's turn."""
    problem = on_devices(2, cores=1, environments=1, iteration=4, window=4, simulation=chunks(1.0),
                         generation=straight("gpu", 1e-9, 0.0), training=straight("gpu", 4.0, 0.0))  # fmt: skip
    found = used("sync", problem)
    assert found[CORES] == pytest.approx({BUSY: 0.5, "barrier": 0.5}, abs=1e-6)
    assert found[TRAINING] == pytest.approx({BUSY: 0.5, "barrier": 0.5}, abs=1e-6)


def test_admission() -> None:
    """Of two batches that may be under way the training takes 8 s for one, the rollout 4 s."""
    problem = on_devices(2, cores=1, environments=1, iteration=4, window=4, simulation=chunks(1.0),
                         generation=straight("gpu", 1e-9, 0.0), training=straight("gpu", 8.0, 0.0))  # fmt: skip
    found = used("ebrl", problem)
    assert found[CORES] == pytest.approx({BUSY: 0.5, "admission": 0.5}, abs=1e-6)
    assert found[TRAINING] == pytest.approx({BUSY: 1.0}, abs=1e-6)
    assert found[GENERATION]["admission"] == pytest.approx(0.5, abs=1e-6)


def test_transfers() -> None:
    """4 s of rollout, 2 s until the devices are the training's, 1 s of training, 2 s back and 1 s for the weights."""
    problem = on_devices(1, cores=1, environments=1, iteration=4, window=4, simulation=chunks(1.0),
                         generation=straight("gpu", 1e-9, 0.0), training=straight("gpu", 1.0, 0.0))  # fmt: skip
    allocation = Allocation(generation={"GPU-0": 100}, training={"GPU-0": 100})
    found = used("colocated", problem, allocation=allocation, swap_s=2.0, publish_s=1.0)
    assert found[CORES] == pytest.approx({BUSY: 0.4, "barrier": 0.1, "transfer": 0.5}, abs=1e-6)
    assert found[TRAINING] == pytest.approx({BUSY: 0.1, "barrier": 0.4, "transfer": 0.5}, abs=1e-6)


def test_own_cores() -> None:
    """Environments 0 and 2 have one core, 1 and 3 the other. 0 takes 3 s, so in the third one 2 could use the other
    core, were it its own; of the three that wait then two are at the barrier. In the fourth all three are."""
    quick = {"generation": straight("gpu", 1e-9, 0.0), "training": straight("gpu", 1e-9, 0.0)}
    problem = on_devices(2, cores=2, environments=4, iteration=16, window=4, simulation=chunks(1.0), **quick)
    lone = {"stragglers": (0,), "straggler_factor": 3.0}
    bound, free = used("async without rebinding", problem, **lone), used("async", problem, **lone)
    assert bound[CORES] == pytest.approx({BUSY: 6 / 8, "barrier": 5 / 24, "core": 1 / 24}, abs=1e-6)
    assert "core" not in free[CORES]


def test_more_cores_than_environments() -> None:
    quick = {"generation": straight("gpu", 1e-9, 0.0), "training": straight("gpu", 1e-9, 0.0)}
    found = used("ebrl", on_devices(2, cores=4, environments=1, iteration=4, simulation=chunks(1.0), **quick))
    assert found[CORES] == pytest.approx({BUSY: 0.25, "environments": 0.75}, abs=1e-6)


def _rendering() -> Any:
    simulation = chunks(0.3)
    simulation.tables.update(straight("gpu", 0.05, 0.0).tables)
    return simulation
