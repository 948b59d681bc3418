"""What schedules reach on machines, and which of them there are."""

from __future__ import annotations

import attrs
import pytest

from ebrl.errors import PlanError
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.problem import Device, Problem
from ebrl.rehearse.comparison import Outcome, Trial, rehearsed, trials
from ebrl.rehearse.truth import TrueCosts
from ebrl.rehearse.usage import CORES, GENERATION, TRAINING

from ..planner.machines import on_cores, on_devices, straight

PROBLEM = on_devices(2, cores=16, environments=16, iteration=64)


def outcome(schedule: str, problem: Problem = PROBLEM, seed: int = 0) -> Outcome:
    trial = Trial(title=schedule, schedule=SCHEDULES[schedule], gpus=len(problem.devices), problem=problem)
    truth = TrueCosts.of(problem, simulation_sigma=0.2, publish_s=0.05)
    return rehearsed(trial, truth, iterations=3, seed=seed)[0]


def test_all_that_a_machine_allows_are_rehearsed() -> None:
    one = on_devices(1)
    found, left_out = trials({1: one, 2: PROBLEM}, SCHEDULES, named=False)
    assert [trial.title for trial in found if trial.gpus == 2] == list(SCHEDULES)
    assert [trial.title for trial in found if trial.gpus == 1] == ["ebrl", "hybrid", "colocated", "sync"]
    assert left_out[0] == "async on 1 GPU is left out: devices of their own for rollout and training need two"
    assert len(left_out) == 2


def test_one_that_was_named_must_be_possible() -> None:
    named = {"async": SCHEDULES["async"]}
    with pytest.raises(PlanError, match="async on 1 GPU: devices of their own for rollout and training need two"):
        trials({1: on_devices(1), 2: PROBLEM}, named, named=True)
    assert len(trials({2: PROBLEM}, named, named=True)[0]) == 1


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_what_fits_on_no_device_is_refused(schedule: str) -> None:
    large = attrs.evolve(PROBLEM, training=straight("gpu", 0.3, 0.024, memory_mib=90_000))
    with pytest.raises(PlanError, match="its memory fits"):
        trials({2: large}, {schedule: SCHEDULES[schedule]}, named=True)


def test_in_turn_the_memory_is_that_of_one_stage() -> None:
    half = {"memory_mib": 50_000}
    costs = {"generation": straight("gpu", 0.1, 0.02, **half), "training": straight("gpu", 0.3, 0.024, **half)}
    one = attrs.evolve(on_devices(1), **costs)
    found, _ = trials({1: one}, SCHEDULES, named=False)
    assert [trial.title for trial in found] == ["hybrid", "colocated"]


def test_where_costs_are_unknown_nothing_is_possible() -> None:
    other = attrs.evolve(
        PROBLEM, nodes=(attrs.evolve(PROBLEM.nodes[0], devices=(Device(uuid="GPU-0", model="another"),)),)
    )
    with pytest.raises(PlanError):
        trials({1: other}, SCHEDULES, named=False)


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_an_outcome_adds_up(schedule: str) -> None:
    found = outcome(schedule)
    assert 0 < found.of_roofline <= 1
    assert set(found.usage) == {CORES, GENERATION, TRAINING}
    for shares in found.usage.values():
        assert sum(shares.values()) == pytest.approx(1)
    assert sum(found.by_staleness.values()) == pytest.approx(1)
    most = 1 if SCHEDULES[schedule].overlap else 0
    assert 0 <= found.mean_staleness <= found.most_stale <= most
    assert found.median_staleness in found.by_staleness


def test_a_seed_is_an_outcome() -> None:
    assert outcome("async", seed=3) == outcome("async", seed=3)
    assert outcome("async", seed=3).rate != outcome("async", seed=4).rate


def test_a_machine_without_devices() -> None:
    found = outcome("ebrl", on_cores(2))
    assert found.gpus == 0 and not found.allocation.generation
    assert found.rate > 0


def test_a_trace_is_of_the_last_iterations() -> None:
    trial = Trial(title="ebrl", schedule=SCHEDULES["ebrl"], gpus=2, problem=PROBLEM)
    for iterations, traced in ((1, 1), (5, 2)):
        _, trace = rehearsed(trial, TrueCosts.of(PROBLEM), iterations=iterations, seed=0)
        assert sum(span.work == "iteration" for span in trace.spans) == traced
