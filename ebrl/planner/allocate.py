"""The allocator: shares, batch size and threads that make the slowest stage fastest.

Devices of one model are interchangeable, so what is searched is how many of them follow which pattern (training
beside generation, training alone ...), for every batch size and every share of training, with all counts at once as
arrays. That is exact on the grid of `Problem`, but for simulators that use devices too on many of them: there
`counts` keeps to mixes of two patterns per model, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import Any

import attrs
import numpy as np

from ebrl.planner.costs import CPU, CostTable
from ebrl.planner.patterns import Counts, Pattern, counts, patterns, shares
from ebrl.planner.predict import (
    Prediction,
    admission_rate,
    chunk_duration_s,
    core_sets,
    crowded_training_rate,
    environment_cycle_s,
    host_work,
    predict,
    simulation_work,
    soft_minimum,
    usable_cores,
)
from ebrl.planner.problem import GENERATION, OTHERS, SIMULATION, TRAINING, Allocation, Device, Problem

_TIE = 1e-9  # a difference in the last bits is none
SLACK = 0.01
"""What profiles cannot tell apart."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


@attrs.define(frozen=True, kw_only=True)
class Answer:
    """The best allocation found."""

    allocation: Allocation
    prediction: Prediction
    exact: bool = True
    """Whether nothing on the grid is better; else the search was cut short."""


@attrs.define(frozen=True)
class _Choice:
    """The part of an allocation that is the same everywhere."""

    batch: int
    training_percent: int
    """0 where training runs on the CPU."""
    generation_on_devices: bool
    generation_threads: int
    training_threads: int

    @property
    def modesty(self) -> tuple[int, int, int, bool]:
        """In order, what takes least comes first."""
        threads = self.generation_threads + self.training_threads
        return threads, self.batch, self.training_percent, self.generation_on_devices


def allocate(problem: Problem, *, generation_replicas: int = 1, slack: float = _TIE) -> Answer:
    """The best allocation on the grid; of those no more than `slack` (a share of the rate) behind it that with the
    fewest threads and the smallest batch.

    generation_replicas: how many there are where generation runs on the CPU.
    """
    search = _Search(problem, generation_replicas)
    bounded = sorted(((search.bound(choice), choice) for choice in search.choices()), key=itemgetter(0), reverse=True)
    top, near = 0.0, [(0.0, _Choice(1, 0, False, 1, 1), Allocation(generation_replicas=generation_replicas))]
    for bound, choice in bounded:
        if bound < top * (1 - slack):
            break
        rate, allocation = search.best(choice)
        top = max(top, rate)
        near.append((rate, choice, allocation))
    _, _, best = min((entry for entry in near if entry[0] >= top * (1 - slack)), key=lambda entry: entry[1].modesty)
    return Answer(allocation=best, prediction=predict(problem, best), exact=search.exact)


class _Search:
    def __init__(self, problem: Problem, generation_replicas: int) -> None:
        self._problem = problem
        self._replicas = generation_replicas
        groups: dict[tuple[str, float, bool], list[Device]] = {}
        for device in problem.devices:
            groups.setdefault((device.model, device.memory_mib, device.rt_cores), []).append(device)
        self._groups = list(groups.values())
        self._usable = usable_cores(problem, Allocation())
        cores = min(len(self._usable[SIMULATION]), problem.environments)
        self._simulating_s = simulation_work(problem.simulation.on(CPU), cores)
        self.exact = True

    def choices(self) -> Iterator[_Choice]:
        problem = self._problem
        models = {device.model for device in problem.devices}
        percents = [0] * (problem.training.on(CPU) is not None)
        if models & set(problem.training.devices()):
            percents += range(problem.step_percent, 101, problem.step_percent)
        places = [False] * (problem.generation.on(CPU) is not None)
        places += [True] * bool(models & set(problem.generation.devices()))
        for batch, percent, on_devices in product(problem.grid("batch"), percents, places):
            own = (1,) if on_devices else problem.grid("generation_threads")
            threads = (1,) if percent else problem.grid("training_threads")
            yield from (_Choice(batch, percent, on_devices, one, other) for one, other in product(own, threads))

    def bound(self, choice: _Choice) -> float:
        """A rate that `choice` cannot exceed, whatever the devices do."""
        problem = self._problem
        if choice.generation_on_devices:
            tables = [problem.generation.on(device.model) for device in problem.devices]
            generation = sum(table.rate(100, choice.batch) for table in tables if table is not None)
        else:
            generation = self._cpu_generation(choice)
        return min(generation, self._most_training(choice))

    def _most_training(self, choice: _Choice) -> float:
        """As if all devices trained, and were of the fastest model."""
        problem = self._problem
        if not choice.training_percent:
            return self._cpu_training(choice)
        part = math.ceil(problem.iteration / len(problem.devices))
        tables = [problem.training.on(model) for model in {device.model for device in problem.devices}]
        seconds = [table.seconds(choice.training_percent, part) for table in tables if table is not None]
        return problem.iteration / min(seconds)

    def best(self, choice: _Choice) -> tuple[float, Allocation]:
        """The best counts of patterns for `choice`, and their rate."""
        options = [
            patterns(
                self._problem,
                group[0],
                training=choice.training_percent,
                generation=choice.generation_on_devices,
                batch=choice.batch,
            )
            for group in self._groups
        ]
        ways = [counts(len(kinds), len(group)) for kinds, group in zip(options, self._groups, strict=True)]
        self.exact = self.exact and all(complete for _, complete in ways)
        size = math.prod(len(rows) for rows, _ in ways)
        index = np.indices([len(rows) for rows, _ in ways]).reshape(len(ways), size)
        chosen = [rows[picked] for (rows, _), picked in zip(ways, index, strict=True)]
        rates = self._rates(choice, options, chosen, size)
        position = int(np.argmax(rates >= rates.max() * (1 - 1e-12)))
        return float(rates[position]), self._allocation(choice, options, [rows[position] for rows in chosen])

    def _rates(
        self, choice: _Choice, options: Sequence[Sequence[Pattern]], chosen: Sequence[Counts], size: int
    ) -> Floats:
        """The rate of every row, as `predict` would give it."""
        problem = self._problem
        generation, held, host = self._generation(choice, options, chosen, size)
        training, training_work = self._training(choice, options, chosen, size)
        rendering, shares = np.zeros(size), np.zeros(size)
        for _, table, pattern, numbers in self._used(SIMULATION, options, chosen):
            rendering += numbers * table.rate(pattern.simulation, 1)
            shares += numbers
        limits = [generation, rendering] if problem.simulation.devices() else [generation]
        chunk_s = chunk_duration_s(problem, shares, rendering)
        work = {GENERATION: host}
        rollout = soft_minimum([*limits, self._core_limit(work)])
        cycle_s = environment_cycle_s(chunk_s, held, generation, problem.environments, choice.batch)
        admission: Floats = admission_rate(problem, rollout, training, chunk_s, held, generation, cycle_s)
        if problem.barriers:
            return admission
        if not choice.training_percent:
            rollout_s = self._simulating_s + host
            training = crowded_training_rate(self._usable, training, choice.training_threads, rollout_s)
        work |= {TRAINING: training_work, OTHERS: np.full(size, problem.others_core_s)}
        every = [*limits, problem.environments / cycle_s, training, self._core_limit(work), admission]
        rate: Floats = soft_minimum(every)
        return rate

    def _core_limit(self, work: Mapping[str, Floats]) -> Floats:
        """What the cores allow for `work` beside the simulation."""
        loads: dict[str, Any] = {SIMULATION: self._simulating_s, **work}
        limits = [
            number / np.maximum(sum(loads[load] for load in chosen), 1e-300)
            for chosen, number in core_sets({load: self._usable[load] for load in loads})
        ]
        limit: Floats = np.minimum.reduce(np.broadcast_arrays(*limits))
        return limit

    def _generation(
        self, choice: _Choice, options: Sequence[Sequence[Pattern]], chosen: Sequence[Counts], size: int
    ) -> tuple[Floats, Floats, Floats]:
        """(rate of generation, requests held while all replicas work, its CPU time per chunk-step)."""
        problem, batch = self._problem, choice.batch
        total, replicas, host = np.zeros(size), np.zeros(size), np.zeros(size)
        if choice.generation_on_devices:
            for _, table, pattern, numbers in self._used(GENERATION, options, chosen):
                total += numbers * table.rate(pattern.generation, batch)
                replicas += numbers
                host = np.where(numbers > 0, np.maximum(host, host_work(table, 100, batch)), host)
        else:
            total += self._cpu_generation(choice)
            replicas += self._replicas
            host += host_work(problem.generation.on(CPU), choice.generation_threads, batch)
        return total, replicas * batch, host

    def _training(
        self, choice: _Choice, options: Sequence[Sequence[Pattern]], chosen: Sequence[Counts], size: int
    ) -> tuple[Floats, Floats]:
        """(rate of the training, its CPU time per chunk-step)."""
        problem = self._problem
        if not choice.training_percent:
            host_s = host_work(problem.training.on(CPU), choice.training_threads, problem.iteration)
            return np.full(size, self._cpu_training(choice)), np.full(size, host_s)
        used = list(self._used(TRAINING, options, chosen))
        trainers = sum((numbers for *_, numbers in used), start=np.zeros(size, np.int64))
        rates, host = np.zeros(size), np.zeros(size)
        for count in np.unique(trainers[trainers > 0]):
            part, these = math.ceil(problem.iteration / count), trainers == count
            slowest_s: Floats = np.zeros(size)
            busiest_s: Floats = np.zeros(size)
            for _, table, pattern, numbers in used:
                takes_part = numbers > 0
                slowest_s = np.maximum(slowest_s, takes_part * table.seconds(pattern.training, part))
                busiest_s = np.maximum(busiest_s, takes_part * host_work(table, 100, part))
            rates[these], host[these] = problem.iteration / slowest_s[these], busiest_s[these]
        return rates, host

    def _used(
        self, load: str, options: Sequence[Sequence[Pattern]], chosen: Sequence[Counts]
    ) -> Iterator[tuple[Device, CostTable, Pattern, Counts]]:
        """Every pattern with a part for `load`, with how many devices follow it in every row."""
        costs = {SIMULATION: self._problem.simulation, GENERATION: self._problem.generation}
        for group, kinds, rows in zip(self._groups, options, chosen, strict=True):
            table = costs.get(load, self._problem.training).on(group[0].model)
            for column, pattern in enumerate(kinds):
                if table is not None and getattr(pattern, load):
                    yield group[0], table, pattern, rows[:, column]

    def _cpu_generation(self, choice: _Choice) -> float:
        table = self._problem.generation.on(CPU)
        return 0.0 if table is None else self._replicas * table.rate(choice.generation_threads, choice.batch)

    def _cpu_training(self, choice: _Choice) -> float:
        table = self._problem.training.on(CPU)
        return 0.0 if table is None else table.rate(choice.training_threads, self._problem.iteration)

    def _allocation(
        self, choice: _Choice, options: Sequence[Sequence[Pattern]], numbers: Sequence[Counts]
    ) -> Allocation:
        given: dict[str, dict[str, int]] = {SIMULATION: {}, GENERATION: {}, TRAINING: {}}
        for group, kinds, row in zip(self._groups, options, numbers, strict=True):
            for uuid, pattern in shares(kinds, row.tolist(), group):
                for load, use in given.items():
                    if percent := getattr(pattern, load):
                        use[uuid] = percent
        return Allocation(
            simulation=given[SIMULATION],
            generation=given[GENERATION],
            training=given[TRAINING],
            generation_replicas=self._replicas,
            batch=choice.batch,
            generation_threads=choice.generation_threads,
            training_threads=choice.training_threads,
        )
