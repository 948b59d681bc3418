"""The roofline: a rate that no allocation and no schedule of a problem can exceed, from work and capacity alone.

It is a linear program: most R chunk-steps per second, by rates at which stages are served in each way that there is
(a share of a device or a number of threads, and a batch size), so that

- each stage is served R chunk-steps per second, all ways together;
- devices: at any moment a device is divided among the stages, and has each stage once. A way that takes `seconds` a
  call needs so much time in which the device is divided that way; all divisions of a model together have as much time
  as there are devices of it. Speed falls slower than SMs, so stages side by side do more than in turn;
- cores: for every set of loads, what they need of the cores is at most what any of them may use (Hall's condition);
- environments: those that step, and those that wait for a call, are at most all (Little's law);
- training: one iteration at a time, and no faster than on all of the best devices (or threads) at once.

Memory, barriers, staleness, requests that wait for a call, and the fixed parts of calls that several devices repeat
are left out: they only lower R. Of means, that is; a short rehearsal may be lucky.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, product

import attrs

from ebrl.planner.costs import CPU, CostTable, StageCosts
from ebrl.planner.predict import core_sets, host_work, simulation_work
from ebrl.planner.problem import GENERATION, OTHERS, SIMULATION, TRAINING, Device, Problem

_ALL_BATCHES, _NEXT_BATCH = 64, 1.1
_RATE = "rate"

Row = dict[str, float]
"""Variable -> coefficient."""


@attrs.define(frozen=True, kw_only=True)
class Roofline:
    """What the resources allow at most."""

    rate: float
    """Chunk-steps per second."""
    parts: Mapping[str, float]
    """Resource -> its part in the limit, together 1: by how many per cent the rate would grow with one per cent more of
    it. ``cores of ...``, ``devices``, ``environments``, ``training``."""
    limits: Mapping[str, float]
    """Rate that each resource alone would allow."""

    @property
    def binding(self) -> str:
        """The resource with the largest part."""
        return max(self.parts, key=lambda name: (self.parts[name], name))


@attrs.define(frozen=True)
class Limit:
    """A row of the program: the sum of `row` is at most `bound`."""

    name: str
    row: Row
    bound: float


def roofline(problem: Problem) -> Roofline:
    """The rate that neither `predict` (with an efficiency of at most 1) nor a rehearsal of `problem` exceeds."""
    rules, limits = _rows(problem)
    rate, parts = _most(rules, limits)
    names = dict.fromkeys(limit.name for limit in limits)
    alone = {name: _most(rules, [limit for limit in limits if limit.name == name])[0] for name in names}
    return Roofline(rate=rate, parts=parts, limits=alone)


def _most(rules: list[Row], limits: list[Limit]) -> tuple[float, dict[str, float]]:
    """(most of `_RATE`, name of limits -> their part in it). rules: rows that are at most 0 whatever there is."""
    from scipy.optimize import linprog

    rows = [*rules, *(limit.row for limit in limits)]
    bounds = [0.0] * len(rules) + [limit.bound for limit in limits]
    column = {name: number for number, name in enumerate(sorted({name for row in rows for name in row} | {_RATE}))}
    matrix = [[0.0] * len(column) for _ in rows]
    for number, row in enumerate(rows):
        for name, value in row.items():
            matrix[number][column[name]] = value
    objective = [0.0] * len(column)
    objective[column[_RATE]] = -1.0
    found = linprog(objective, A_ub=matrix, b_ub=bounds, method="highs")
    if found.status == 3:  # unbounded: these limits hold nothing back
        return math.inf, {}
    parts: defaultdict[str, float] = defaultdict(float)
    for limit, price in zip(limits, found.ineqlin.marginals[len(rules) :], strict=True):
        parts[limit.name] += -price * limit.bound
    rate = -float(found.fun)
    return rate, {name: float(value) / rate if rate else 1 / len(parts) for name, value in parts.items()}


def _rows(problem: Problem) -> tuple[list[Row], list[Limit]]:
    """The rules, and the limits of resources."""
    program = _Program(problem)
    for stage, costs in ((GENERATION, problem.generation), (TRAINING, problem.training)):
        for threads in problem.grid(f"{stage}_threads"):
            program.serve(stage, costs.on(CPU), CPU, threads)
    kinds: defaultdict[tuple[str, bool], list[Device]] = defaultdict(list)
    for device in problem.devices:
        kinds[device.model, device.rt_cores or not problem.rt_cores].append(device)
    for (model, traces), devices in kinds.items():
        stages = {GENERATION: problem.generation, TRAINING: problem.training}
        if traces:
            stages[SIMULATION] = problem.simulation
        program.divide(f"{model} {traces}", model, len(devices), stages)
    return program.rules(), [*program.limits, *program.core_limits(), *program.other_limits()]


class _Program:
    """Rows that grow with every way to serve a stage."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._served: defaultdict[str, Row] = defaultdict(lambda: {_RATE: 1.0})  # stage -> rate minus what is served
        self._work: defaultdict[str, Row] = defaultdict(dict)  # load -> CPU seconds per second
        self._waiting: Row = {}  # environments
        self._shares: list[Row] = []
        self.limits: list[Limit] = []

    def serve(self, stage: str, table: CostTable | None, place: str, quota: float) -> Row:
        """New ways to serve `stage` under `quota`; variable -> seconds of the quota for a chunk-step."""
        if table is None:
            return {}
        found: Row = {}
        for low, high in self._batches(stage, table):
            name = f"{stage} {place} {quota} {low}"
            found[name] = min(table.seconds(quota, batch) / batch for batch in (low, high))
            self._served[stage][name] = -1.0
            inside = quota if place == CPU else 100
            self._work[stage][name] = min(host_work(table, inside, batch) for batch in (low, high))
            if stage != TRAINING:
                self._waiting[name] = table.seconds(quota, low)
        return found

    def divide(self, kind: str, model: str, count: int, stages: Mapping[str, StageCosts]) -> None:
        """All divisions of `count` devices of `model` among those of `stages` that can run there."""
        tables = {stage: table for stage, costs in stages.items() if (table := costs.on(model)) is not None}
        percents = _percents(self._problem)
        every = product((0, *percents), repeat=len(tables))
        divisions = {shares: f"{kind} {shares}" for shares in every if 0 < sum(shares) <= 100}
        for number, (stage, table) in enumerate(tables.items()):
            for percent in percents:
                row = self.serve(stage, table, kind, percent)
                row |= {name: -1.0 for shares, name in divisions.items() if shares[number] == percent}
                self._shares.append(row)
        self.limits.append(Limit("devices", dict.fromkeys(divisions.values(), 1.0), count))

    def rules(self) -> list[Row]:
        needs = [GENERATION, TRAINING]
        if self._problem.simulation.devices():
            needs.append(SIMULATION)
        return [*self._shares, *(self._served[stage] for stage in needs)]

    def core_limits(self) -> Iterator[Limit]:
        problem = self._problem
        quotas = {load: problem.core_quotas.get(load, problem.cores) for load in (SIMULATION, GENERATION, TRAINING)}
        if problem.others_core_s:
            quotas[OTHERS] = problem.core_quotas.get(OTHERS, problem.cores)
        counts = range(1, max(1, min(len(quotas[SIMULATION]), problem.environments)) + 1)
        own = {
            SIMULATION: min(simulation_work(problem.simulation.on(CPU), count) for count in counts),
            OTHERS: problem.others_core_s,
        }
        for loads, number in core_sets(quotas):
            row: Row = {_RATE: sum(own.get(load, 0.0) for load in loads)}
            for load in loads:
                row |= {name: value for name, value in self._work[load].items() if load != SIMULATION}
            yield Limit(f"cores of {' + '.join(loads)}", row, number)

    def other_limits(self) -> Iterator[Limit]:
        problem = self._problem
        chunk_s = min(simulation_work(problem.simulation.on(CPU), count) for count in range(1, len(problem.cores) + 1))
        yield Limit("environments", {_RATE: chunk_s, **self._waiting}, problem.environments)
        yield Limit("training", {_RATE: 1.0}, _most_training(problem))

    def _batches(self, stage: str, table: CostTable) -> Iterator[tuple[int, int]]:
        """Intervals of batch sizes, which count by what is best within them: that is at an end of each, as calls are
        linear in between."""
        if stage == SIMULATION:
            yield 1, 1
            return
        if stage == TRAINING:
            yield from ((part, part) for part in _parts(self._problem))
            return
        most = self._problem.grid("batch")[-1]
        yield from ((batch, batch) for batch in range(1, min(most, _ALL_BATCHES) + 1))
        ends, end = {_ALL_BATCHES, most, *table.batches}, float(_ALL_BATCHES)
        while (end := end * _NEXT_BATCH) < most:
            ends.add(round(end))
        yield from pairwise(sorted(end for end in ends if _ALL_BATCHES <= end <= most))


def _most_training(problem: Problem) -> float:
    """Mostly with all devices; measured tables can say otherwise."""
    models = {device.model for device in problem.devices}
    tables = [table for model, table in problem.training.tables.items() if model in models]
    found = [problem.iteration / table.seconds(100, part) for table in tables for part in _parts(problem)]
    if (table := problem.training.on(CPU)) is not None:
        found += [table.rate(threads, problem.iteration) for threads in problem.grid("training_threads")]
    return max(found, default=0.0)


def _parts(problem: Problem) -> list[int]:
    """What one device may have of an iteration, least first."""
    counts = range(1, max(1, len(problem.devices)) + 1)
    return sorted({math.ceil(problem.iteration / count) for count in counts})


def _percents(problem: Problem) -> list[int]:
    """Shares on the grid, and what they leave."""
    grid: Iterable[int] = range(problem.step_percent, 101, problem.step_percent)
    return sorted({*grid, *(100 - percent for percent in grid if percent < 100), 100})
