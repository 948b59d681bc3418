"""The roofline: a rate that no allocation and no schedule of a problem can exceed, from work and capacity alone.

With R the rate in chunk-steps per second, every limit below holds whatever waits for what:

- Cores: R x (least CPU time per chunk-step of a set of loads) is at most the number of cores that any of them may use.
- Devices: a chunk-step of a stage takes at least c = min (percent / 100) x seconds(percent, batch) / batch of a whole
  device, over the grids of percent and batch; speed falls slower than SMs, so small shares are often the best. What the
  stages take together is at most the number of devices. With several models that is a linear program: most R, where
  stage s does x[m, s] on model m, sum over s of c[m, s] x[m, s] <= devices[m] and sum over m of x[m, s] = R. It is
  solved in closed form, see `device_rate`.
- Training: one iteration at a time, and no faster than on all of the best devices (or threads) at once.
- Environments: R x (shortest chunk + shortest generation call) is at most their number (Little's law).

Memory, barriers, staleness and the fixed parts of calls that several devices repeat are left out: they only lower R.
Of means, that is; a short rehearsal may be lucky. A rehearsal keeps core quotas for the simulation alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, permutations, product

import attrs

from ebrl.planner.costs import CPU, CostTable, StageCosts
from ebrl.planner.predict import core_limits, host_work, simulation_work
from ebrl.planner.problem import GENERATION, OTHERS, SIMULATION, TRAINING, Device, Problem


@attrs.define(frozen=True, kw_only=True)
class Roofline:
    """What the resources allow at most."""

    rate: float
    """Chunk-steps per second."""
    binding: str
    """The limit that is reached first, as in `limits`."""
    limits: Mapping[str, float]
    """Rate that each resource alone would allow: ``cores of ...``, ``devices``, ``training``, ``environments``."""


def roofline(problem: Problem) -> Roofline:
    """The rate that neither `predict` (with an efficiency of at most 1) nor a rehearsal of `problem` exceeds."""
    work = _least_core_work(problem)
    quotas = {load: problem.core_quotas.get(load, problem.cores) for load in work}
    cycle_s = work[SIMULATION] + _shortest_generation_s(problem)
    limits = {
        **core_limits(quotas, work),
        **_device_limit(problem),
        TRAINING: _most_training(problem),
        "environments": problem.environments / max(cycle_s, 1e-12),
    }
    binding = min(limits, key=lambda name: (limits[name], name))
    return Roofline(rate=limits[binding], binding=binding, limits=limits)


def device_rate(costs: Mapping[str, Mapping[str, float]], devices: Mapping[str, int]) -> float:
    """The most that devices do of several stages at once: the linear program of this module.

    costs: model -> stage -> share of a device's second that a chunk-step takes, infinite where it cannot. devices:
    model -> their number.

    By duality it is the least of sum over models of devices x max over stages of price / cost, over all prices that
    sum to 1; so whatever prices are tried give a bound. At the best ones enough stages are tied on some model that
    the ties link all stages with a price: every chain of stages with a model for each link is tried.
    """
    stages = sorted({stage for row in costs.values() for stage in row})
    return min(
        (
            sum(devices[model] * max(price / costs[model][stage] for stage, price in prices.items()) for model in costs)
            / sum(prices.values())
            for prices in _prices(costs, stages)
        ),
        default=math.inf,
    )


def _prices(costs: Mapping[str, Mapping[str, float]], stages: list[str]) -> Iterator[dict[str, float]]:
    for size in range(1, len(stages) + 1):
        for chain in permutations(stages, size):
            for models in product(costs, repeat=size - 1):
                prices = {chain[0]: 1.0}
                for (before, after), model in zip(pairwise(chain), models, strict=True):
                    prices[after] = prices[before] * costs[model][after] / costs[model][before]
                if all(math.isfinite(price) for price in prices.values()):
                    yield prices


def _device_limit(problem: Problem) -> dict[str, float]:
    """Devices of one model may differ in whether a simulator can use them. A stage that can do without any device
    needs none here."""
    stages = {SIMULATION: problem.simulation, GENERATION: problem.generation, TRAINING: problem.training}
    needs = [name for name, costs in stages.items() if costs.devices() and (name == SIMULATION or not costs.on(CPU))]
    if not needs or not problem.devices:
        return {}
    kinds: dict[str, list[Device]] = {}
    for device in problem.devices:
        kinds.setdefault(f"{device.model} {device.rt_cores or not problem.rt_cores}", []).append(device)
    costs = {
        kind: {stage: _device_s(problem, stage, stages[stage], devices[0]) for stage in needs}
        for kind, devices in kinds.items()
    }
    return {"devices": device_rate(costs, {kind: len(devices) for kind, devices in kinds.items()})}


def _device_s(problem: Problem, stage: str, costs: StageCosts, device: Device) -> float:
    """Seconds of a whole device that a chunk-step takes at least."""
    table = costs.on(device.model)
    if table is None or (stage == SIMULATION and problem.rt_cores and not device.rt_cores):
        return math.inf
    batches: Iterable[int] = _batches(problem)
    if stage != GENERATION:
        batches = (1,) if stage == SIMULATION else _parts(problem)
    return min(
        percent / 100 * table.seconds(percent, batch) / batch for batch in batches for percent in _percents(problem)
    )


def _least_core_work(problem: Problem) -> dict[str, float]:
    """CPU seconds per chunk-step of every load."""
    cores = problem.core_quotas.get(SIMULATION, problem.cores)
    counts = range(1, max(1, min(len(cores), problem.environments)) + 1)
    return {
        SIMULATION: min(simulation_work(problem.simulation.on(CPU), count) for count in counts),
        GENERATION: _least_host_s(problem, problem.generation, problem.grid("generation_threads"), _batches(problem)),
        TRAINING: _least_host_s(problem, problem.training, problem.grid("training_threads"), _parts(problem)),
        OTHERS: problem.others_core_s,
    }


def _least_host_s(problem: Problem, costs: StageCosts, threads: Iterable[int], batches: Iterable[int]) -> float:
    """On whichever resource there is; a device's share says nothing of its host. 0 where there is none at all, which
    other limits tell."""
    choices = [(table, 100) for table in _present(problem, costs)]
    if (table := costs.on(CPU)) is not None:
        choices += [(table, count) for count in threads]
    return min((host_work(table, quota, batch) for table, quota in choices for batch in batches), default=0.0)


def _shortest_generation_s(problem: Problem) -> float:
    """Mostly of one observation; measured tables can say otherwise."""
    tables = [(table, 100) for table in _present(problem, problem.generation)]
    if (table := problem.generation.on(CPU)) is not None:
        tables += [(table, threads) for threads in problem.grid("generation_threads")]
    return min(
        (table.seconds(quota, batch) for table, quota in tables for batch in _batches(problem)), default=math.inf
    )


def _most_training(problem: Problem) -> float:
    """Mostly with all devices, likewise."""
    tables = _present(problem, problem.training)
    found = [problem.iteration / table.seconds(100, part) for table in tables for part in _parts(problem)]
    if (table := problem.training.on(CPU)) is not None:
        found += [table.rate(threads, problem.iteration) for threads in problem.grid("training_threads")]
    return max(found, default=0.0)


def _present(problem: Problem, costs: StageCosts) -> list[CostTable]:
    """The tables of the models that there are."""
    models = {device.model for device in problem.devices}
    return [table for model, table in costs.tables.items() if model in models]


def _batches(problem: Problem) -> range:
    """Replicas serve what is there, up to the batch size."""
    return range(1, problem.grid("batch")[-1] + 1)


def _parts(problem: Problem) -> list[int]:
    """What one device may have of an iteration, least first."""
    counts = range(1, max(1, len(problem.devices)) + 1)
    return sorted({math.ceil(problem.iteration / count) for count in counts})


def _percents(problem: Problem) -> list[int]:
    """Shares on the grid, and what they leave."""
    grid = range(problem.step_percent, 101, problem.step_percent)
    return sorted({*grid, *(100 - percent for percent in grid if percent < 100), 100})
