"""The rate that an allocation reaches: the smallest of its limits.

- A stage alone: replicas x batch / duration of a call.
- Cores that stages share: work conservation. A rate R is possible if and only if for every set A of loads
  R x (their CPU time per chunk-step) is at most the number of cores that any of A may use (Hall's condition for the
  flow from loads to cores).
- Environments: each is either stepping or waiting for its batch, so R x (chunk time + batch time) is at most their
  number (Little's law).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations

import attrs

from ebrl.planner.costs import CPU, CostTable
from ebrl.planner.problem import GENERATION, OTHERS, SIMULATION, TRAINING, Allocation, Core, Problem


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
    rollout, training = rollout_limits(problem, allocation), training_rate(problem, allocation)
    usable = usable_cores(problem, allocation)
    work = core_work(problem, allocation)
    if problem.barriers:
        rest = {name: core_s for name, core_s in work.items() if name in (SIMULATION, GENERATION)}
        limits = {**rollout, **core_limits({load: usable[load] for load in rest}, rest)}
        alone, bottleneck = min((rate, name) for name, rate in limits.items())
        taken_s = _inverse(alone) + _inverse(training) + problem.others_core_s
        rate = 1.0 / taken_s if taken_s > 0 else math.inf
        bottleneck = bottleneck if alone < training else TRAINING
        limits = {**limits, TRAINING: training}
    else:
        limits = {**rollout, TRAINING: training, **core_limits(usable, work)}
        rate, bottleneck = min((rate, name) for name, rate in limits.items())
    return Prediction(rate=rate, bottleneck=bottleneck, limits=limits, busy=_busy(problem, allocation, rate, limits))


def rollout_limits(problem: Problem, allocation: Allocation) -> dict[str, float]:
    """The limits of simulation and generation but for the cores."""
    generation, held = generation_rate(problem, allocation)
    limits = {GENERATION: generation}
    if problem.simulation.devices():
        limits["simulation on devices"] = sum(
            table.rate(percent, 1)
            for uuid, percent in allocation.simulation.items()
            if (table := problem.simulation.on(_model(problem, uuid))) is not None
        )
    chunk_s = simulation_work(problem.simulation.on(CPU), 1)
    limits["environments"] = environments_limit(problem.environments, chunk_s, held, generation)
    return limits


def environments_limit(environments: int, chunk_s: float, held: float, generation: float) -> float:
    """held: requests in all batches together while every replica works; `generation`: their rate."""
    if generation <= 0:
        return 0.0
    waiting_s = held / generation
    return environments / max(chunk_s + waiting_s, 1e-12)


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
