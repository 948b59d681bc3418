"""The rate that an allocation reaches: the smallest of its limits, and less where several are about equal.

- A stage alone: replicas x batch / duration of a call.
- Cores that stages share: work conservation. A rate R is possible if and only if for every set A of loads
  R x (their CPU time per chunk-step) is at most the number of cores that any of A may use (Hall's condition for the
  flow from loads to cores).
- Training on cores that others use too: a thread gets its fair share of them, not all it could use, for as long as
  the rollout of an iteration goes on.
- Environments: each is stepping, waiting for a replica or in its batch, so R x (the time of all three) is at most
  their number (Little's law). Replicas serve what is there when cores are hungry: with few environments, calls of
  less than the batch size may be the best that there is, and are what happens.
- Admission: at most `max_staleness` + 1 batches are under way, so R x (time to roll a batch out + time to train on
  it) is at most so many batches. To roll one out takes longer than its share of the rate: it begins without actions
  and ends without new chunks, and no sooner than its slowest window.

All limits are means. With calls that take now more, now less, each limit is the one that holds at some time, so what
is reached stays below the smallest where another is close: `soft_minimum`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import attrs
import numpy as np

from ebrl.planner.costs import CPU, CostTable
from ebrl.planner.problem import GENERATION, OTHERS, SIMULATION, TRAINING, Allocation, Core, Problem

_ORDER = 16
RENDERING = "simulation on devices"
"""Name of that limit."""


@attrs.define(frozen=True, kw_only=True)
class Prediction:
    """What an allocation should reach."""

    rate: float
    """Chunk-steps per second."""
    bottleneck: str
    """The limit that is reached first, as in `limits`."""
    limits: Mapping[str, float]
    """Rate that each limit alone would allow, in chunk-steps per second."""
    busy: Mapping[str, float]
    """Load -> share of its own time that it works at `rate`: of a replica, or of the cores that simulate."""


def predict(problem: Problem, allocation: Allocation) -> Prediction:
    """Rate and bottleneck of `allocation`; a rate of 0 where a stage has nothing to run on."""
    smaller = [batch for batch in problem.grid("batch") if batch < allocation.batch]
    served = [allocation, *(attrs.evolve(allocation, batch=batch) for batch in reversed(smaller))]
    return max((_predict(problem, each) for each in served), key=lambda found: found.rate)


def _predict(problem: Problem, allocation: Allocation) -> Prediction:
    """With generation calls of just the batch size."""
    usable = usable_cores(problem, allocation)
    work = core_work(problem, allocation)
    alone = {name: work[name] for name in (SIMULATION, GENERATION)}
    training = training_rate(problem, allocation)
    stages = stage_limits(problem, allocation)
    rollout = {**stages, **core_limits({load: usable[load] for load in alone}, alone)}
    generation, held = generation_rate(problem, allocation)
    chunk_s = float(chunk_duration_s(problem, len(allocation.simulation), stages.get(RENDERING, 0.0)))
    cycle_s = float(environment_cycle_s(chunk_s, held, generation, problem.environments, allocation.batch))
    environments = {"environments": problem.environments / cycle_s}
    together = float(soft_minimum([*rollout.values()]))
    admission = float(admission_rate(problem, together, training, chunk_s, held, generation, cycle_s))
    if problem.barriers:
        limits, rate = {**rollout, **environments, TRAINING: training}, admission
    else:
        if not allocation.training:
            training = float(crowded_training_rate(usable, training, allocation.training_threads, sum(alone.values())))
        limits = {**stages, **environments, TRAINING: training, **core_limits(usable, work), "admission": admission}
        rate = float(soft_minimum([*limits.values()]))
    bottleneck = min(limits, key=lambda name: (limits[name], name))
    rate *= problem.efficiency
    return Prediction(rate=rate, bottleneck=bottleneck, limits=limits, busy=_busy(problem, allocation, rate, limits))


def soft_minimum(limits: Sequence[Any]) -> Any:
    """The power mean of order -`_ORDER`, without its factor: a single limit is itself, two equal ones cost 4 %, and
    what is a quarter above the smallest costs next to nothing. For numbers and arrays alike. Its order is what
    rehearsals with a tenth to a fifth of variation come closest to."""
    smallest = np.minimum.reduce(np.broadcast_arrays(*limits))
    with np.errstate(divide="ignore", invalid="ignore"):
        crowd = sum(np.where(smallest > 0, np.divide(smallest, limit), 1.0) ** _ORDER for limit in limits)
    return smallest * crowd ** (-1.0 / _ORDER)


def stage_limits(problem: Problem, allocation: Allocation) -> dict[str, float]:
    """The limits of simulation and generation but for cores and environments."""
    limits = {GENERATION: generation_rate(problem, allocation)[0]}
    if problem.simulation.devices():
        limits[RENDERING] = sum(
            table.rate(percent, 1)
            for uuid, percent in allocation.simulation.items()
            if (table := problem.simulation.on(_model(problem, uuid))) is not None
        )
    return limits


def chunk_duration_s(problem: Problem, shares: Any, rendering: Any) -> Any:
    """Of a chunk on a core that nobody else uses, and then on a device, where the simulator has `shares` of some, that
    do `rendering` chunk-steps per second together. For numbers and arrays alike, as all that follow."""
    core_s = simulation_work(problem.simulation.on(CPU), 1)
    return core_s + _over(shares, rendering) if problem.simulation.devices() else core_s


def environment_cycle_s(chunk_s: Any, held: Any, generation: Any, environments: int, batch: int) -> Any:
    """From one chunk of an environment to its next.

    held: requests in all batches together while every replica works; generation: their rate. Replicas begin their calls
    one after the other and a request waits for whichever is free first, so all are busy for half of a call over their
    number on average; where calls take longer than chunks, for all of that.
    """
    batch_s = _over(held, generation)
    alone_s = chunk_s + batch_s
    used = np.minimum(1.0, _over(environments / np.maximum(alone_s, 1e-12), generation))
    between_s = _over(batch_s * batch, held)
    crowded_s = batch_s + np.maximum(chunk_s + used * between_s / 2, between_s)
    return np.maximum(np.where(np.asarray(held) < environments * batch, crowded_s, alone_s), 1e-12)


def admission_rate(
    problem: Problem, rollout: Any, training: Any, chunk_s: Any, held: Any, generation: Any, cycle_s: Any
) -> Any:
    """Chunk-steps per second that the bound of staleness allows. rollout: the rate but for the environments."""
    size = problem.iteration
    fill_s = chunk_s + _over(held, generation)
    rolled_s = np.maximum(
        np.maximum(_over(size, rollout) + fill_s, size / problem.environments * cycle_s),
        problem.window * cycle_s + problem.reset_s,
    )
    under_way = 1 if problem.barriers else problem.max_staleness + 1
    return under_way * size / (rolled_s + _over(size, training) + size * problem.others_core_s)


def _over(amount: Any, rate: Any) -> Any:
    """Infinite where nothing is done."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(rate) > 0, np.divide(amount, rate), np.inf)


def simulation_work(table: CostTable | None, cores: int) -> float:
    """CPU seconds per chunk-step while `cores` cores simulate: they share caches and memory, so it may grow with
    their number. Beyond the largest measured number every core is taken to be worth as much as at that one."""
    if table is None:
        return 0.0
    measured = min(float(max(cores, 1)), table.quotas[-1])
    return measured * table.seconds(measured, 1)


def generation_rate(problem: Problem, allocation: Allocation) -> tuple[float, float]:
    """(chunk-steps per second, requests held while every replica works)."""
    batch = allocation.batch
    if not allocation.generation:
        table = problem.generation.on(CPU)
        if table is None:
            return 0.0, 0.0
        count = allocation.generation_replicas
        return count * table.rate(allocation.generation_threads, batch), float(count * batch)
    total = 0.0
    for uuid, percent in allocation.generation.items():
        table = problem.generation.on(_model(problem, uuid))
        total += table.rate(percent, batch) if table is not None else 0.0
    return total, float(batch * len(allocation.generation))


def training_rate(problem: Problem, allocation: Allocation) -> float:
    """Chunk-steps per second of the training alone."""
    if not allocation.training:
        table = problem.training.on(CPU)
        return 0.0 if table is None else table.rate(allocation.training_threads, problem.iteration)
    slowest_s = 0.0
    part = math.ceil(problem.iteration / len(allocation.training))
    for uuid, percent in allocation.training.items():
        table = problem.training.on(_model(problem, uuid))
        slowest_s = math.inf if table is None else max(slowest_s, table.seconds(percent, part))
    return problem.iteration / slowest_s


def crowded_training_rate(usable: Mapping[str, frozenset[Core]], training: Any, threads: int, rollout_s: Any) -> Any:
    """Chunk-steps per second of training on the CPU beside a rollout that costs `rollout_s` of CPU time per chunk-step.

    With n cores, n + `threads` threads want to run while the rollout does. It takes rollout_s (n + threads) / n^2, in
    which the training comes as far as alone in rollout_s / n; for the rest it is alone.
    """
    if not usable[SIMULATION] & usable[TRAINING]:
        return training
    return training / (1.0 + training * threads * rollout_s / len(usable[TRAINING]) ** 2)


def core_work(problem: Problem, allocation: Allocation) -> dict[str, float]:
    """CPU seconds per chunk-step of every load."""
    cores = min(len(usable_cores(problem, allocation)[SIMULATION]), problem.environments)
    return {
        SIMULATION: simulation_work(problem.simulation.on(CPU), cores),
        GENERATION: _dearest(problem, allocation.generation, GENERATION, allocation),
        TRAINING: _dearest(problem, allocation.training, TRAINING, allocation),
        OTHERS: problem.others_core_s,
    }


def _dearest(problem: Problem, shares: Mapping[str, int], load: str, allocation: Allocation) -> float:
    """CPU time per chunk-step, of the replica that needs most."""
    costs = problem.generation if load == GENERATION else problem.training
    if not shares:
        threads = allocation.generation_threads if load == GENERATION else allocation.training_threads
        batch = allocation.batch if load == GENERATION else problem.iteration
        return host_work(costs.on(CPU), threads, batch)
    batch = allocation.batch if load == GENERATION else math.ceil(problem.iteration / len(shares))
    return max(host_work(costs.on(_model(problem, uuid)), 100, batch) for uuid in shares)


def host_work(table: CostTable | None, quota: float, batch: int) -> float:
    """CPU seconds per chunk-step of calls of `batch`."""
    return 0.0 if table is None else table.core_s(quota, batch) / batch


def core_limits(usable: Mapping[str, frozenset[Core]], work: Mapping[str, float]) -> dict[str, float]:
    """The tightest set of loads, by its name: ``cores of simulation + training``."""
    found = [
        (number / total, loads) for loads, number in core_sets(usable) if (total := sum(work[load] for load in loads))
    ]
    if not found:
        return {}
    rate, loads = min(found, key=lambda entry: (entry[0], len(entry[1])))
    return {f"cores of {' + '.join(loads)}": rate}


def core_sets(usable: Mapping[str, frozenset[Core]]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every set of loads, and how many cores any of them may use."""
    for size in range(1, len(usable) + 1):
        for loads in combinations(usable, size):
            yield loads, len(frozenset().union(*(usable[load] for load in loads)))


def usable_cores(problem: Problem, allocation: Allocation) -> dict[str, frozenset[Core]]:
    """Load -> the cores that it may use."""
    first = problem.first_cores
    default = {SIMULATION: problem.cores, GENERATION: first, TRAINING: first, OTHERS: first}
    return {**default, **problem.core_quotas, **allocation.cores}


def _busy(problem: Problem, allocation: Allocation, rate: float, limits: Mapping[str, float]) -> dict[str, float]:
    work, usable = core_work(problem, allocation), usable_cores(problem, allocation)
    cores = max(len(usable[SIMULATION]), 1)
    return {
        SIMULATION: min(1.0, rate * work[SIMULATION] / cores),
        GENERATION: min(1.0, rate * _inverse(limits[GENERATION])),
        TRAINING: min(1.0, rate * _inverse(limits[TRAINING])),
    }


def _model(problem: Problem, uuid: str) -> str:
    return next(device.model for device in problem.devices if device.uuid == uuid)


def _inverse(rate: float) -> float:
    return math.inf if rate <= 0 else 1.0 / rate
