"""The best allocation that a schedule can have: every baseline is compared at its best."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from ebrl.errors import PlanError
from ebrl.graph.schedules import EXCLUSIVE, HALVES, IN_TURN, Schedule
from ebrl.planner.allocate import SLACK, allocate
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.possible import possible
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.rehearse.truth import TrueCosts

_FIRST_STEPS, _MOST_STEPS = 3, 12
_STARTING = 3  # a part in so many of the steps fills the pipeline


def best(problem: Problem, truth: TrueCosts, schedule: Schedule, *, seed: int = 0) -> Allocation:
    """What the allocator finds where stages share devices; else the best in short rehearsals of all that `schedule`
    allows: of many the better halves, again and again, in longer ones. PlanError where it allows nothing on these
    devices."""
    allowed, steps = choices(problem, schedule), _FIRST_STEPS

    def rate(allocation: Allocation) -> float:
        found = Rehearsal(problem, allocation, truth, schedule=schedule, seed=seed).run(steps)
        return throughput(found[steps // _STARTING :])

    while len(allowed) > 1:
        allowed = sorted(allowed, key=rate, reverse=True)[: math.ceil(len(allowed) / 2) if steps < _MOST_STEPS else 1]
        steps = min(2 * steps, _MOST_STEPS)
    return allowed[0]


def choices(problem: Problem, schedule: Schedule) -> list[Allocation]:
    """All that `schedule` allows, as far as only rehearsals tell them apart; PlanError where it allows nothing."""
    # Two that take turns are divided best by the allocator for turns.
    told = problem if schedule.overlap else attrs.evolve(problem, barriers=True)
    found = [allocation for allocation in _choices(told, schedule) if possible(problem, schedule, allocation)]
    if not found:
        raise PlanError(
            "some stage would have nothing on which its costs are known and its memory fits",
            hint="name other GPUs, or more of them",
        )
    return found


def _choices(problem: Problem, schedule: Schedule) -> Iterator[Allocation]:
    uuids = [device.uuid for device in problem.devices]
    if not uuids or not (problem.generation.devices() or problem.training.devices()):
        yield _in_step(problem, schedule, allocate(problem, slack=SLACK).allocation)
    elif schedule.devices == IN_TURN:
        yield _in_step(problem, schedule, _allocation(problem, uuids, uuids, uuids))
    elif schedule.devices == HALVES:
        half = math.ceil(len(uuids) / 2)
        yield _in_step(problem, schedule, _allocation(problem, uuids[:half], uuids[-half:], uuids))
    elif schedule.devices == EXCLUSIVE:
        if len(uuids) < 2:
            raise PlanError("devices of their own for rollout and training need two", hint="name more GPUs")
        for training in range(1, len(uuids)):
            for allocation in _divided(problem, uuids[training:], uuids[:training]):
                yield from _with_batches(problem, schedule, allocation)
    else:
        yield _in_step(problem, schedule, allocate(problem, slack=SLACK).allocation)


def _divided(problem: Problem, rollout: list[str], training: list[str]) -> Iterator[Allocation]:
    """Simulators that compute on devices get some of those of the rollout, or, with a single one, half of it."""
    if not problem.simulation.devices():
        yield _allocation(problem, [], rollout, training)
        return
    for count in range(1, len(rollout)):
        yield _allocation(problem, rollout[:count], rollout[count:], training)
    shared = _allocation(problem, rollout, rollout, training)
    yield attrs.evolve(shared, simulation=dict.fromkeys(rollout, 50), generation=dict.fromkeys(rollout, 50))


def _allocation(problem: Problem, simulation: list[str], generation: list[str], training: list[str]) -> Allocation:
    rendering = simulation if problem.simulation.devices() else []
    together = bool(set(rendering) & set(generation))
    return Allocation(
        simulation=dict.fromkeys(rendering, 50 if together else 100),
        generation=dict.fromkeys(generation, 50 if together else 100),
        training=dict.fromkeys(training, 100),
    )


def _with_batches(problem: Problem, schedule: Schedule, allocation: Allocation) -> Iterator[Allocation]:
    if schedule.step_barrier:
        yield _in_step(problem, schedule, allocation)
        return
    for batch in problem.grid("batch"):
        yield attrs.evolve(allocation, batch=batch)


def _in_step(problem: Problem, schedule: Schedule, allocation: Allocation) -> Allocation:
    """Behind step barriers a group asks all at once: its environments divide over the replicas."""
    if not schedule.step_barrier:
        return allocation
    replicas = max(1, len(allocation.generation)) if allocation.generation else allocation.generation_replicas
    group = math.ceil(problem.environments / schedule.groups)
    return attrs.evolve(allocation, batch=math.ceil(group / replicas))
