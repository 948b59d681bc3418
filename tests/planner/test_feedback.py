"""Measured rates in, changes out: when the planner speaks, what it learns, and that it never swings."""

from __future__ import annotations

import math
from random import Random

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.planner.allocate import SLACK, allocate
from ebrl.planner.feedback import Decision, FeedbackPlanner, Measurement
from ebrl.planner.predict import predict
from ebrl.planner.problem import Allocation, Problem

from .machines import drifted, measured, on_cores, on_devices

DRIFTED = {"training": 2.5}


def balanced(gap: float) -> Measurement:
    """Training slower than rollout by this share; the rates are those of nothing in particular."""
    return Measurement(
        throughput=100 * (1 - gap), simulation_rate=100, generation_rate=400, training_rate=100 * (1 - gap)
    )


def planner(problem: Problem, **options: object) -> FeedbackPlanner:
    options = {"allocation": allocate(problem).allocation, **options}
    return FeedbackPlanner(problem=problem, **options)  # type: ignore[arg-type]


def follow(asked: FeedbackPlanner, truth: Problem, steps: int) -> list[Decision]:
    """`steps` steps on a machine that costs what `truth` says, under whatever allocation is in force."""
    return [decision for _ in range(steps) for decision in asked.observe(measured(truth, asked.allocation))]


@pytest.mark.parametrize(("gap", "speaks"), [(0.0, False), (0.1, False), (0.149, False), (0.16, True), (0.6, True)])
def test_it_speaks_of_gaps_above_15_percent_only(gap: float, speaks: bool) -> None:
    asked = planner(on_cores())
    said = [asked.observe(balanced(gap)) for _ in range(100)]
    assert any(said) is speaks


def test_it_speaks_in_the_20th_step_of_a_gap() -> None:
    asked = planner(on_cores())
    said = [len(asked.observe(balanced(0.5))) for _ in range(20)]
    assert said == [0] * 19 + [1]


def test_the_gap_may_be_on_either_side() -> None:
    slow_rollout = Measurement(throughput=50, simulation_rate=50, generation_rate=400, training_rate=100)
    assert slow_rollout.gap == pytest.approx(balanced(0.5).gap) == pytest.approx(0.5)
    slow_generation = attrs.evolve(slow_rollout, simulation_rate=100, generation_rate=50)
    assert slow_generation.gap == pytest.approx(0.5)


def test_a_gap_that_closes_is_counted_anew() -> None:
    asked = planner(on_cores())
    said = [asked.observe(balanced(0.5)) for _ in range(15)]
    opposite = Measurement(throughput=100, simulation_rate=10, generation_rate=400, training_rate=100)
    said += [asked.observe(opposite) for _ in range(2)]  # the mean passes through where there is no gap
    assert not any(said)
    steps = next(step for step in range(1, 100) if asked.observe(balanced(0.5)))
    assert steps >= 19


def test_it_learns_what_a_stage_takes_by_now() -> None:
    problem = on_devices()
    asked = planner(problem)
    truth = drifted(problem, training=1.7, generation=0.9)
    (decision,) = follow(asked, truth, 20)
    assert decision.corrections == pytest.approx({"simulation": 1.0, "generation": 0.9, "training": 1.7})
    share = {"quota": 100.0, "batch": 256}
    table, true = asked.problem.training.on("gpu"), truth.training.on("gpu")
    assert table is not None and true is not None
    assert table.seconds(**share) == pytest.approx(true.seconds(**share))


def test_corrections_are_of_the_first_tables_however_often_it_corrects() -> None:
    problem = on_devices()
    asked = planner(problem)
    truth = drifted(problem, **DRIFTED)
    decisions = follow(asked, truth, 200)
    later = follow(asked, drifted(truth, training=0.5), 200)
    found = [decision.corrections["training"] for decision in (*decisions, *later) if decision.kind != "outcome"]
    assert found[0] == pytest.approx(2.5)
    assert found[-1] == pytest.approx(1.25)


def test_smaller_calls_than_planned_are_no_slower_generation() -> None:
    """While cores are hungry, calls are not full; a full one would serve more in about the same time."""
    problem = on_devices()
    asked = planner(problem)
    half = attrs.evolve(asked.allocation, batch=asked.allocation.batch // 2)
    shown = attrs.evolve(
        measured(problem, asked.allocation), generation_rate=measured(problem, half).generation_rate, batch=half.batch
    )
    for _ in range(25):
        for decision in asked.observe(shown):
            assert decision.corrections["generation"] == pytest.approx(1.0)


def test_a_drift_is_answered_once_and_brings_what_was_predicted() -> None:
    problem = on_devices()
    asked = planner(problem)
    truth = drifted(problem, **DRIFTED)
    before = predict(truth, asked.allocation).rate
    decisions = follow(asked, truth, 300)
    assert [decision.kind for decision in decisions if decision.kind != "kept"] == ["replan", "outcome"]
    replan, outcome = decisions[:2]
    assert replan.predicted == pytest.approx(before)
    assert replan.predicted_new == pytest.approx(allocate(truth).prediction.rate, rel=SLACK)
    assert predict(truth, asked.allocation).rate == pytest.approx(replan.predicted_new)
    assert outcome.achieved_gain == pytest.approx(replan.predicted_gain, rel=0.01)
    assert outcome.step - replan.step == asked.settle + asked.window


def test_after_a_change_it_is_quiet_for_the_cooldown() -> None:
    problem = on_devices()
    asked = planner(problem, cooldown=70)
    first = follow(asked, drifted(problem, training=2.5), 45)
    assert [decision.kind for decision in first] == ["replan", "outcome"]
    again = follow(asked, drifted(problem, generation=2.5), 200)
    assert again[0].step - first[0].step >= 70


def test_where_nothing_is_better_it_says_so_once() -> None:
    """Simulation alone is slow, and all cores simulate already."""
    problem = on_devices(cores=4)
    asked = planner(problem)
    decisions = follow(asked, problem, 500)
    assert [decision.kind for decision in decisions] == ["kept"]
    (kept,) = decisions
    assert kept.new == kept.old == asked.allocation
    assert kept.reason == "the best allocation gains 0.0%, less than 4%"


@pytest.mark.parametrize(("steps_left", "kind"), [(30, "kept"), (100_000, "replan")])
def test_a_change_must_pay_within_the_steps_that_are_left(steps_left: int, kind: str) -> None:
    problem = on_devices()
    asked = planner(problem, change_s=3000.0, steps_left=steps_left)
    (decision,) = follow(asked, drifted(problem, **DRIFTED), 20)
    assert decision.kind == kind
    assert decision.cost_s == 3000.0
    assert decision.predicted_gain > 0.04
    if kind == "kept":
        assert decision.reason.startswith("it would save ") and decision.reason.endswith("take 3000 s")


def test_what_changes_no_share_of_a_device_costs_nothing() -> None:
    problem = on_cores()
    bad = Allocation(cores={"simulation": frozenset({("", 0)})})
    asked = planner(problem, allocation=bad, change_s=1e9, steps_left=100)
    decision = follow(asked, problem, 20)[0]
    assert (decision.kind, decision.cost_s) == ("replan", 0.0)


def replanned(achieved: float, **options: object) -> tuple[FeedbackPlanner, Allocation, list[Decision]]:
    """A planner that changed an allocation, and what it said when throughput became `achieved` times that of before."""
    problem = on_devices()
    asked = planner(problem, **options)
    truth, old = drifted(problem, **DRIFTED), asked.allocation
    (replan,) = follow(asked, truth, 20)
    assert replan.kind == "replan" and asked.allocation == replan.new != old
    shown = attrs.evolve(measured(truth, asked.allocation), throughput=achieved * replan.measured.throughput)
    return asked, old, [decision for _ in range(asked.settle + asked.window) for decision in asked.observe(shown)]


def test_a_change_that_made_things_worse_is_taken_back() -> None:
    asked, old, decisions = replanned(0.9)
    assert [decision.kind for decision in decisions] == ["outcome", "revert"]
    outcome, revert = decisions
    assert outcome.achieved_gain == revert.achieved_gain == pytest.approx(-0.1)
    assert revert.new == old == asked.allocation
    assert revert.reason.startswith("throughput changed by -10.0%; +")


def test_what_was_taken_back_is_not_tried_again() -> None:
    asked, old, _ = replanned(0.9)
    decisions = follow(asked, drifted(on_devices(), **DRIFTED), 500)
    assert [decision.kind for decision in decisions] == ["kept"]
    assert decisions[0].reason == "this allocation was left before, and costs are what they were then"
    assert asked.allocation == old


def test_less_than_predicted_but_no_worse_stays() -> None:
    """Going back would cost as much again and bring nothing."""
    asked, old, decisions = replanned(1.01)
    assert [decision.kind for decision in decisions] == ["outcome"]
    assert asked.allocation != old


def noisy(shown: Measurement, random: Random, sigma: float) -> Measurement:
    """Every rate with its own lognormal noise."""
    names = ("throughput", "simulation_rate", "generation_rate", "training_rate")
    return attrs.evolve(shown, **{name: getattr(shown, name) * math.exp(random.gauss(0, sigma)) for name in names})


scales = st.floats(0.4, 2.5)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 2**32), st.floats(0.0, 0.3), scales, scales, scales, st.booleans())
def test_it_never_swings(
    seed: int, sigma: float, simulation: float, generation: float, training: float, devices: bool
) -> None:
    """2,000 noisy steps, tables that are wrong by any factor: a few changes at the beginning, none that returns."""
    problem = on_devices() if devices else on_cores(4)
    truth = drifted(problem, simulation=simulation, generation=generation, training=training)
    asked, random = planner(problem), Random(seed)
    changes: list[Decision] = []
    shown = measured(truth, asked.allocation)
    for _ in range(2000):
        for decision in asked.observe(noisy(shown, random, sigma)):
            if decision.kind in ("replan", "revert"):
                changes.append(decision)
                shown = measured(truth, asked.allocation)
    used = [change.new for change in changes if change.kind == "replan"]
    assert len(changes) <= 4
    assert all(used.count(allocation) == 1 for allocation in used)
    if sigma < 0.05:
        assert predict(truth, asked.allocation).rate >= 0.9 * predict(truth, allocate(problem).allocation).rate
