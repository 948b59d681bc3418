"""Patterns: the ways to divide one device among the stages, and the ways to give patterns to equal devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import comb
from typing import Any

import attrs
import numpy as np

from ebrl.planner.costs import StageCosts
from ebrl.planner.problem import Device, Problem

MOST = 20_000
"""Ways to give patterns to the devices of one model that are tried one by one."""

Counts = np.ndarray[Any, np.dtype[np.int64]]


@attrs.define(frozen=True)
class Pattern:
    """What a device that follows it does, in percent of its SMs."""

    training: int
    generation: int
    simulation: int


def patterns(problem: Problem, device: Device, *, training: int, generation: bool, batch: int) -> list[Pattern]:
    """All uses of `device` that its memory holds and that leave nothing idle which a stage on it could use.

    training: percent of each device that trains, 0 where training runs on the CPU. generation: whether it may run on
    devices, with batches of `batch`.
    """
    stages = (
        (problem.training, training > 0, problem.iteration),
        (problem.generation, generation, batch),
        (problem.simulation, device.rt_cores or not problem.rt_cores, 1),
    )
    choices = [(False, True) if allowed and costs.on(device.model) else (False,) for costs, allowed, _ in stages]
    found: list[Pattern] = []
    for trains in choices[0]:
        for generates in choices[1]:
            for simulates in choices[2]:
                used = zip(stages, (trains, generates, simulates), strict=True)
                needs = sum(_memory_mib(costs, device, size) for (costs, _, size), uses in used if uses)
                if needs <= device.memory_mib:
                    found += _divided(training if trains else 0, generates, simulates, problem.step_percent)
    return found


def _divided(training: int, generates: bool, simulates: bool, step: int) -> Iterator[Pattern]:
    left = 100 - training
    if not (generates or simulates):
        yield Pattern(training, 0, 0)
    elif not (generates and simulates):
        if left > 0:
            yield Pattern(training, left if generates else 0, left if simulates else 0)
    else:
        for share in range(step, left, step):
            yield Pattern(training, share, left - share)


def _memory_mib(costs: StageCosts, device: Device, batch: int) -> float:
    table = costs.on(device.model)
    return 0.0 if table is None else table.memory_mib(batch)


def counts(kinds: int, devices: int) -> tuple[Counts, bool]:
    """(rows, complete): every row says how many of `devices` equal devices follow each of `kinds` patterns.

    Where that are more than `MOST` rows, only those that mix at most two patterns, and complete is False.
    """
    if comb(devices + kinds - 1, kinds - 1) <= MOST:
        return np.array(list(_compositions(devices, kinds)), np.int64).reshape(-1, kinds), True
    rows = np.zeros((kinds + comb(kinds, 2) * (devices - 1), kinds), np.int64)
    rows[range(kinds), range(kinds)] = devices
    row = kinds
    for one, other in combinations(range(kinds), 2):
        for share in range(1, devices):
            rows[row, one], rows[row, other] = share, devices - share
            row += 1
    return rows, False


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    for bars in combinations(range(total + parts - 1), parts - 1):
        edges = (-1, *bars, total + parts - 1)
        yield tuple(right - left - 1 for left, right in pairwise(edges))


def shares(
    chosen: Sequence[Pattern], numbers: Sequence[int], devices: Sequence[Device]
) -> Iterator[tuple[str, Pattern]]:
    """(device UUID, its pattern), handed out in order."""
    ahead = iter(devices)
    for pattern, number in zip(chosen, numbers, strict=True):
        for _ in range(int(number)):
            yield next(ahead).uuid, pattern
