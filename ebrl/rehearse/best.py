"""The best allocation that a schedule can have: every baseline is compared at its best."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from ebrl.errors import PlanError
from ebrl.graph.schedules import HALVES, IN_TURN, SHARED, Schedule
from ebrl.planner.allocate import SLACK, allocate
from ebrl.planner.problem import GENERATION, SIMULATION, TRAINING, Allocation, Problem
from ebrl.rehearse.possible import possible
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.rehearse.truth import TrueCosts

_FIRST_STEPS, _MOST_STEPS = 3, 12
_STARTING = 3  # a part in so many of the steps fills the pipeline


def best(problem: Problem, truth: TrueCosts, schedule: Schedule, *, seed: int = 0) -> Allocation:
    """What the allocator finds where stages share devices at once; else the best in short rehearsals of all that
    `schedule` allows: of many the better halves, again and again, in longer ones. PlanError where it allows nothing
    on these devices."""
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
    simulation, generation, training = (_able(problem, stage) for stage in (SIMULATION, GENERATION, TRAINING))
    if schedule.devices == SHARED or not (generation or training):
        yield _in_step(problem, schedule, allocate(problem, slack=SLACK).allocation)
        # Who takes turns divides no SMs; the allocator, which divides them always, knows nothing of that.
        whole = _in_step(problem, schedule, _allocation(schedule, simulation, generation, training))
        if not schedule.overlap and (generation or training):
            yield whole
    elif schedule.devices == IN_TURN:
        yield _in_step(problem, schedule, _allocation(schedule, simulation, generation, training))
    elif schedule.devices == HALVES:
        halves = _halves(simulation, generation)
        yield _in_step(problem, schedule, _allocation(schedule, *halves, training))
    else:
        divisions = list(_divisions(schedule, simulation, generation, training))
        if not divisions:
            raise PlanError("devices of their own for rollout and training need two", hint="name more GPUs")
        for allocation in divisions:
            yield from _with_batches(problem, schedule, allocation)


def _able(problem: Problem, stage: str) -> list[str]:
    """The devices on which a stage can run."""
    costs = {SIMULATION: problem.simulation, GENERATION: problem.generation, TRAINING: problem.training}[stage]
    tracing = stage == SIMULATION and problem.rt_cores
    return [
        device.uuid
        for device in problem.devices
        if costs.on(device.model) is not None and (device.rt_cores or not tracing)
    ]


def _halves(simulation: list[str], generation: list[str]) -> tuple[list[str], list[str]]:
    """Of the devices that both could have the simulation gets half, of others whoever can use them all."""
    both = [uuid for uuid in generation if uuid in simulation]
    if not simulation or not both:
        return simulation, generation
    half = len(both) // 2
    kept, left = set(simulation) - set(both[half:]), set(generation) - set(both[:half])
    if not kept or not left:
        raise PlanError("a half of the devices each for simulation and generation needs two", hint="name more GPUs")
    return [uuid for uuid in simulation if uuid in kept], [uuid for uuid in generation if uuid in left]


def _divisions(
    schedule: Schedule, simulation: list[str], generation: list[str], training: list[str]
) -> Iterator[Allocation]:
    """Training gets some devices, the rollout the others; simulators that compute on devices get some of these, or
    share them with the generation."""
    for count in range(1, len(training) + 1) if training else (0,):
        own = training[:count]
        rendering = [uuid for uuid in simulation if uuid not in own]
        acting = [uuid for uuid in generation if uuid not in own]
        if (simulation and not rendering) or (generation and not acting):
            continue
        yield _allocation(schedule, rendering, acting, own)
        if rendering == acting:
            for some in range(1, len(rendering)):
                yield _allocation(schedule, rendering[:some], rendering[some:], own)


def _allocation(schedule: Schedule, simulation: list[str], generation: list[str], training: list[str]) -> Allocation:
    """In lock-step with a single group simulation and generation are never at work at once: each has the whole of a
    device that they share."""
    at_once = set(simulation) & set(generation) and not (schedule.step_barrier and schedule.groups == 1)
    percent = 50 if at_once else 100
    return Allocation(
        simulation=dict.fromkeys(simulation, percent),
        generation=dict.fromkeys(generation, percent),
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
