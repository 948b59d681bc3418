"""What the schedules promise, seen in the events of rehearsals."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.graph.schedules import HALVES, IN_TURN, MECHANISMS, SCHEDULES, Schedule
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.best import best
from ebrl.rehearse.rehearsal import Rehearsal
from ebrl.rehearse.truth import TrueCosts
from ebrl.schedule.fixed_dispatcher import FixedDispatcher

from ..planner.machines import on_devices, straight
from .watching import Watched, Work, overlapping

ALL: dict[str, Schedule] = {
    **SCHEDULES,
    **{f"ebrl without {name}": SCHEDULES["ebrl"].without(name) for name in MECHANISMS},
    "ebrl without anything": SCHEDULES["ebrl"].without(*MECHANISMS),
    "async without rebinding": SCHEDULES["async"].without("rebinding"),
    "hybrid without pipeline": SCHEDULES["hybrid"].without("pipeline"),
}
NOISE = {"simulation_sigma": 0.3, "generation_sigma": 0.1, "training_sigma": 0.1}
SWAP_S, PUBLISH_S = 3.0, 0.5
every = pytest.mark.parametrize("name", ALL)


def names(wanted: bool, **features: object) -> pytest.MarkDecorator:
    """Over the schedules that have (or do not have) these features."""
    found = [
        name
        for name, rules in ALL.items()
        if all(getattr(rules, feature) == value for feature, value in features.items()) == wanted
    ]
    assert found
    return pytest.mark.parametrize("name", found)


def a_problem(**changes: object) -> Problem:
    """Two environments per core, a window of each in every iteration."""
    told = {"environments": 16, "iteration": 128, "window": 8, "training": straight("gpu", 0.3, 0.01), **changes}
    return on_devices(2, cores=8, **told)


def an_allocation(rules: Schedule, problem: Problem) -> Allocation:
    """One device generates. It is no other's where stages have devices of their own."""
    batch = problem.environments // rules.groups if rules.step_barrier else 6
    training = {"GPU-0": 100, "GPU-1": 100} if rules.devices in (IN_TURN, HALVES) else {"GPU-0": 100}
    return Allocation(generation={"GPU-1": 100}, training=training, batch=batch)


def watched(name: str, steps: int = 6, problem: Problem | None = None, seed: int = 0, **truth: object) -> Watched:
    rules, problem = ALL[name], problem or a_problem()
    costs = TrueCosts.of(problem, **{**NOISE, **truth})
    found = Watched(problem, an_allocation(rules, problem), costs, schedule=rules, seed=seed)
    found.run(steps)
    return found


def groups(rules: Schedule, environments: int) -> list[list[int]]:
    return [list(range(number, environments, rules.groups)) for number in range(rules.groups)]


@names(True, step_barrier=True)
def test_no_environment_gets_a_chunk_before_all_of_its_group_have_finished(name: str) -> None:
    found, number = watched(name), [0] * 16
    of_group = {index: group for group in groups(ALL[name], 16) for index in group}
    for answer in found.answers:
        for index in answer.environments:
            assert min(answer.done[other] for other in of_group[index]) >= number[index]
            number[index] += 1


@names(True, step_barrier=True)
def test_so_does_who_resets_or_straggles(name: str) -> None:
    """A reset delays its group: its environment will want actions like all others."""
    found = watched(name, episode=5, episode_spread=0.6, reset_s=1.0, stragglers=(3,))
    number = [0] * 16
    for answer in found.answers:
        for index in answer.environments:
            group = next(group for group in groups(ALL[name], 16) if index in group)
            assert min(answer.done[other] for other in group) >= number[index]
            number[index] += 1
    assert any(work.kind == "reset" for work in found.works)


@names(False, step_barrier=True)
def test_without_step_barriers_nobody_waits_for_a_straggler(name: str) -> None:
    found = watched(name, stragglers=(3,))
    ahead = max(max(answer.done) - min(answer.done) for answer in found.answers)
    assert ahead > 4
    assert all(interval.state.at_barriers == 0 for interval in found.intervals)


@every
def test_an_answer_is_of_one_group(name: str) -> None:
    found = watched(name)
    if ALL[name].step_barrier:
        for answer in found.answers:
            assert len({index % ALL[name].groups for index in answer.environments}) == 1
    else:
        assert any(len(answer.environments) < 16 for answer in found.answers)


@every
def test_one_group_steps_while_another_is_served(name: str) -> None:
    """With a single group and one device nobody steps while actions are made."""
    both = [
        interval for interval in watched(name).intervals if interval.state.replicas_busy and interval.state.cores_busy
    ]
    assert bool(both) == (ALL[name].groups > 1 or not ALL[name].step_barrier)


@every
def test_without_overlap_nothing_rolls_out_while_the_policy_trains(name: str) -> None:
    found = watched(name, publish_s=PUBLISH_S)
    together = [
        interval
        for interval in found.intervals
        if interval.state.training_busy and (interval.state.cores_busy or interval.state.replicas_busy)
    ]
    assert bool(together) == ALL[name].overlap
    assert bool(overlapping(found.chunks, found.trainings)) == ALL[name].overlap


@names(True, overlap=False)
def test_without_overlap_every_chunk_is_of_the_newest_weights(name: str) -> None:
    for most in (0, 3):
        found = watched(name, problem=a_problem(max_staleness=most))
        assert {step.most_stale for step in found.steps} == {0}
        assert {step.staleness for step in found.steps} == {0.0}


@names(True, overlap=True)
@pytest.mark.parametrize("most", [0, 1, 3])
def test_with_overlap_no_chunk_is_staler_than_allowed(name: str, most: int) -> None:
    """Where the training is what takes longest, as stale as that."""
    slow = a_problem(max_staleness=most, training=straight("gpu", 0.3, 0.1))
    found = watched(name, 8, slow, publish_s=PUBLISH_S)
    assert max(step.most_stale for step in found.steps) == most
    assert all(0 <= step.staleness <= step.most_stale for step in found.steps)


@every
def test_devices_in_turn_change_hands_between_rollout_and_training(name: str) -> None:
    found = watched(name, swap_s=SWAP_S)
    trainings, turns = found.trainings, ALL[name].devices in (IN_TURN, HALVES)
    moving = [interval for interval in found.intervals if interval.state.transfer]
    assert bool(moving) == turns
    if not turns:
        return
    for training in trainings:
        before_s = max(work.ended_s for work in found.chunks if work.ended_s <= training.began_s)
        assert training.began_s - before_s == pytest.approx(SWAP_S)
    for training, following in pairwise(trainings):
        first_s = min(
            interval.began_s
            for interval in found.intervals
            if interval.state.replicas_busy and training.ended_s <= interval.began_s < following.began_s
        )
        assert first_s - training.ended_s == pytest.approx(SWAP_S)
    assert not any(
        interval.state.replicas_busy or interval.state.cores_busy or interval.state.training_busy for interval in moving
    )


@names(True, overlap=False)
def test_generation_waits_for_its_weights(name: str) -> None:
    swap_s = SWAP_S if ALL[name].devices in (IN_TURN, HALVES) else 0.0
    found = watched(name, publish_s=PUBLISH_S, swap_s=SWAP_S)
    for training, following in pairwise(found.trainings):
        served = [
            interval.began_s
            for interval in found.intervals
            if interval.state.replicas_busy and training.ended_s <= interval.began_s < following.began_s
        ]
        assert min(served) - training.ended_s == pytest.approx(swap_s + PUBLISH_S)


@names(True, overlap=True)
def test_with_overlap_generation_goes_on_while_weights_travel(name: str) -> None:
    found = watched(name, publish_s=PUBLISH_S)
    assert any(interval.state.transfer and interval.state.cores_busy for interval in found.intervals)


@every
def test_without_rebinding_an_environment_has_one_core(name: str) -> None:
    """Those of one core take turns on it; else one may go ahead on any core that is free."""
    rebinding, works = ALL[name].rebinding, defaultdict[int, list[Work]](list)
    found = watched(name, stragglers=(0,), episode=6, reset_s=0.5)
    for work in found.works:
        works[work.environment % 8].append(work)
    assert isinstance(found.rollout.dispatcher, FixedDispatcher) != rebinding
    for of_core in works.values():
        inside = overlapping(of_core, of_core) - sum(work.ended_s - work.began_s for work in of_core)
        if not rebinding:
            assert inside == pytest.approx(0.0)
    waiting = [
        interval
        for interval in found.intervals
        if interval.state.ready and interval.state.cores_busy < interval.state.cores
    ]
    assert bool(waiting) != rebinding


@every
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32))
def test_a_seed_is_a_run(name: str, seed: int) -> None:
    one, same, other = (watched(name, 3, seed=number) for number in (seed, seed, seed + 1))
    assert one.steps == same.steps and one.works == same.works and one.usage.shares() == same.usage.shares()
    assert [step.end_s for step in one.steps] != [step.end_s for step in other.steps]


@every
def test_every_chunk_trains_once(name: str) -> None:
    """Counts agree: what was trained was rolled out, and no more is under way than admission allows."""
    found = watched(name, 5)
    under_way = (found.problem.max_staleness if ALL[name].overlap else 0) + 1
    assert 5 * 128 <= sum(found.done) <= (5 + under_way) * 128
    assert len(found.trainings) == 5


@every
def test_the_best_of_a_schedule_can_be_rehearsed(name: str) -> None:
    problem = a_problem()
    truth = TrueCosts.of(problem, **NOISE, swap_s=SWAP_S)
    allocation = best(problem, truth, ALL[name])
    steps = Rehearsal(problem, allocation, truth, schedule=ALL[name]).run(4)
    assert len(steps) == 4


@pytest.mark.parametrize("name", SCHEDULES)
def test_barriers_of_a_problem_end_all_overlap(name: str) -> None:
    found = watched(name, problem=a_problem(barriers=True))
    assert not overlapping(found.chunks, found.trainings)
    assert {step.most_stale for step in found.steps} == {0}


def test_groups_are_worth_something() -> None:
    """Where a chunk takes as long as the actions for it, one group hides behind the other."""
    problem = on_devices(2, cores=16, environments=16, iteration=128, window=8, training=straight("gpu", 0.01, 0.001))
    times = {
        number: Watched(
            problem,
            Allocation(generation={"GPU-1": 100}, training={"GPU-0": 100}, batch=16 // number),
            TrueCosts.of(problem),
            schedule=attrs.evolve(SCHEDULES["hybrid"], groups=number),
        )
        for number in (1, 2)
    }
    for each in times.values():
        each.run(6)
    assert times[2].now_s < 0.95 * times[1].now_s
