"""Whole runs in virtual time."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.allocate import allocate
from ebrl.planner.feedback import FeedbackPlanner
from ebrl.planner.predict import predict
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.rehearsal import Rehearsal, Step, throughput
from ebrl.rehearse.truth import TrueCosts

from ..planner.machines import drifted, on_cores, on_devices, straight

NOISE = {
    "simulation_sigma": 0.2,
    "generation_sigma": 0.1,
    "training_sigma": 0.2,
    "episode": 20,
    "episode_spread": 0.3,
    "reset_s": 0.05,
}
SHARED = Allocation(batch=8)
DIVIDED = Allocation(batch=16, generation={"GPU-0": 100}, training={"GPU-1": 100})


def rehearse(problem: Problem, allocation: Allocation, steps: int = 30, seed: int = 0, **noise: object) -> list[Step]:
    return Rehearsal(problem, allocation, TrueCosts.of(problem, **noise), seed=seed).run(steps)


@pytest.mark.parametrize(
    ("problem", "allocation", "bottleneck"),
    [
        (on_cores(2), SHARED, "cores of simulation + generation + training"),
        (on_cores(2, others_core_s=0.005), SHARED, "cores of simulation + generation + training + others"),
        (on_cores(16, training=straight("cpu", 0.0, 0.004)), SHARED, "training"),
        (on_devices(2, cores=16, training=straight("gpu", 0.3, 0.04)), DIVIDED, "training"),
        (on_devices(2, cores=4), DIVIDED, "cores of simulation"),
        (on_devices(2, cores=64, training=straight("gpu", 0.3, 0.001)), DIVIDED, "generation"),
    ],
)
def test_it_agrees_with_what_is_predicted(problem: Problem, allocation: Allocation, bottleneck: str) -> None:
    expected = predict(problem, allocation)
    assert expected.bottleneck == bottleneck
    found = throughput(rehearse(problem, allocation)[10:])
    assert found == pytest.approx(expected.rate, rel=0.1)
    assert found <= expected.rate * 1.02


def test_barriers_agree_with_what_is_predicted() -> None:
    """One environment per core, so that nobody waits at the end of a rollout."""
    problem = on_cores(8, barriers=True, training=straight("cpu", 0.0, 0.002))
    steps = Rehearsal(problem, SHARED, TrueCosts.of(problem), schedule=SCHEDULES["sync"]).run(20)
    # The batch is one call of all environments between two of their chunks, which the prediction lets overlap.
    assert throughput(steps[5:]) == pytest.approx(1 / (0.011 / 8 + 0.002), rel=0.02)
    assert throughput(steps[5:]) <= predict(problem, SHARED).rate * 1.02
    assert all(step.most_stale == 0 for step in steps)


def test_what_it_measures_is_what_the_stages_cost() -> None:
    problem = on_devices(2, cores=16)
    (*_, last) = rehearse(problem, DIVIDED)
    assert last.measured.simulation_rate == pytest.approx(16 / 0.3, rel=0.02)
    assert last.measured.training_rate == pytest.approx(predict(problem, DIVIDED).limits["training"])
    assert last.measured.generation_rate > 0 and 1 <= last.measured.batch <= 16


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_a_seed_is_a_run(seed: int) -> None:
    problem = on_devices(2, cores=16)
    one, same, other = (rehearse(problem, DIVIDED, 8, number, **NOISE) for number in (seed, seed, seed + 1))
    assert one == same
    assert [step.end_s for step in one] != [step.end_s for step in other]


def test_it_goes_on_where_it_was() -> None:
    problem = on_devices(2, cores=16)
    whole, parts = (Rehearsal(problem, DIVIDED, TrueCosts.of(problem, **NOISE), seed=5) for _ in range(2))
    assert whole.run(12) == [*parts.run(5), *parts.run(7)] == parts.steps
    assert whole.now_s == parts.now_s == whole.steps[-1].end_s


def test_steps_are_in_order_and_fill_the_time() -> None:
    steps = rehearse(on_devices(2, cores=16), DIVIDED, **NOISE)
    assert [step.index for step in steps] == list(range(30))
    assert sum(step.wall_s for step in steps) == pytest.approx(steps[-1].end_s)
    assert all(step.measured.throughput == pytest.approx(256 / step.wall_s) for step in steps)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_staleness_is_kept(most: int) -> None:
    problem = on_devices(2, cores=16, max_staleness=most)
    steps = rehearse(problem, DIVIDED, 20, **NOISE)
    assert max(step.most_stale for step in steps) <= most
    assert all(0 <= step.staleness <= step.most_stale for step in steps)


def test_more_staleness_is_faster() -> None:
    rates = [throughput(rehearse(on_devices(2, cores=16, max_staleness=most), DIVIDED, 20)[5:]) for most in (0, 1)]
    assert rates[1] > 1.2 * rates[0]


def test_costs_that_drift_show_from_that_step_on() -> None:
    problem = on_devices(2, cores=64)
    dearer = TrueCosts.of(drifted(problem, training=2.0))
    steps = Rehearsal(problem, DIVIDED, TrueCosts.of(problem), drift={10: dearer}).run(20)
    before, after = steps[9].measured.training_rate, steps[10].measured.training_rate
    assert after == pytest.approx(before / 2)


def test_a_change_of_shares_stops_the_devices_for_its_time() -> None:
    problem = on_devices(2, cores=64)
    other = attrs.evolve(DIVIDED, generation={"GPU-1": 100}, training={"GPU-0": 100})
    frozen, paused, batch = (Rehearsal(problem, DIVIDED, TrueCosts.of(problem), change_s=20.0) for _ in range(3))
    for rehearsal in (frozen, paused, batch):
        rehearsal.run(10)
    paused.change(other)
    batch.change(attrs.evolve(DIVIDED, batch=32))
    for rehearsal in (frozen, paused, batch):
        rehearsal.run(10)
    assert paused.now_s == pytest.approx(frozen.now_s + 20.0, abs=8.0)
    assert batch.now_s == pytest.approx(frozen.now_s, abs=8.0)
    assert paused.steps[9].allocation == DIVIDED and paused.steps[10].allocation == other


def test_a_batch_change_loses_no_request() -> None:
    rehearsal = Rehearsal(on_devices(3, cores=16), DIVIDED, TrueCosts.of(on_devices(3, cores=16), **NOISE))
    for generation in ({"GPU-0": 100}, {"GPU-2": 100}, {"GPU-0": 50, "GPU-2": 100}, {"GPU-2": 30}):
        for batch in (1, 64):
            rehearsal.change(attrs.evolve(DIVIDED, generation=generation, batch=batch))
            rehearsal.run(3)
    assert rehearsal.version == 24


def test_the_planner_finds_the_best_allocation_again() -> None:
    problem = on_devices(4, cores=64)
    first = allocate(problem).allocation
    dearer = drifted(problem, training=2.5)
    quiet = {"simulation_sigma": 0.1, "training_sigma": 0.1}
    planner = FeedbackPlanner(problem=problem, allocation=first)
    drift = {10: TrueCosts.of(dearer, **quiet)}
    steps = Rehearsal(problem, first, TrueCosts.of(problem, **quiet), drift=drift, planner=planner).run(150)
    kinds = [decision.kind for step in steps for decision in step.decisions if decision.kind != "kept"]
    assert kinds == ["replan", "outcome"]
    assert throughput(steps[-50:]) >= 0.9 * predict(dearer, allocate(dearer).allocation).rate
    assert throughput(steps[-50:]) > 1.1 * predict(dearer, first).rate


def test_what_cannot_be_rehearsed_is_refused() -> None:
    problem = on_cores(2)
    with pytest.raises(ValueError, match="an iteration of 64 chunk-steps has no whole windows of 7"):
        rehearse(attrs.evolve(problem, window=7), SHARED)


def test_nothing_to_generate_on_ends_with_an_error() -> None:
    """Rather than with a loop that never ends."""
    problem = on_devices(2, cores=16)
    with pytest.raises((RuntimeError, ValueError)):
        Rehearsal(problem, Allocation(batch=8), TrueCosts.of(problem)).run(1)


def test_gaps_delay_environments_and_leave_cores_to_others() -> None:
    """One environment on one core, in turns with its training: 10 ms of work, 5 ms until it hears of its actions."""
    problem = on_cores(1, environments=1, iteration=8, window=8, training=straight("cpu", 0.0, 0.001))
    truth = TrueCosts.of(problem, gap_s=0.005)
    turns = Rehearsal(problem, Allocation(), truth, schedule=SCHEDULES["sync"])
    assert throughput(turns.run(10)) == pytest.approx(1 / (0.001 + 0.010 + 0.005 + 0.001))
    overlap = Rehearsal(problem, Allocation(), truth, schedule=SCHEDULES["ebrl"])
    assert throughput(overlap.run(20)[5:]) == pytest.approx(1 / (0.001 + 0.010 + 0.005), rel=0.04)


def test_trajectories_travel_before_they_train() -> None:
    problem = on_cores(1, environments=1, iteration=8, window=8, training=straight("cpu", 0.0, 0.001))
    for others_core_s, waited_s in ((0.0, 0.1), (0.005, 0.1), (0.05, 0.1)):  # the work of others is on its way
        told = attrs.evolve(problem, others_core_s=others_core_s)
        turns = Rehearsal(told, Allocation(), TrueCosts.of(told, gather_s=0.1), schedule=SCHEDULES["sync"])
        wall_s = turns.run(1)[0].wall_s
        assert wall_s >= 8 * 0.012 + waited_s - 1e-9
        if others_core_s <= 0.005:
            assert wall_s == pytest.approx(8 * 0.012 + waited_s)
