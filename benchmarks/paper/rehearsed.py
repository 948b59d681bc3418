"""Rehearsed: what a case of the paper reaches under a schedule, in virtual time, with the best allocation that the
schedule can have."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from functools import cache

import attrs
from problems import case

from ebrl.errors import PlanError
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.problem import Allocation
from ebrl.planner.roofline import roofline
from ebrl.rehearse.best import best
from ebrl.rehearse.rehearsal import Rehearsal, throughput

STARTING = 3
"""Iterations that fill the pipeline."""
_LEAST = 6
"""Iterations that count."""


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much of an experiment is rehearsed."""

    seeds: int
    chunk_steps: int
    """At least so many count, in whole iterations."""
    horizons: int | None
    """Of an iteration, as in `problems.case`."""


@attrs.define(frozen=True, kw_only=True)
class Rehearsed:
    """One schedule on one case."""

    rate: float
    """Chunk-steps per second; the median over seeds."""
    ceiling: float
    """Its roofline."""
    binding: str
    """What reaches the ceiling first."""
    usage: Mapping[str, Mapping[str, float]]
    """Resource -> ``busy`` or the cause of being idle -> share of its time; of the first seed, as all below."""
    staleness: float
    """Mean over the chunks that were trained on."""
    allocation: Allocation

    @property
    def share(self) -> float:
        """Of the roofline."""
        return self.rate / self.ceiling


@cache
def rehearsed(
    name: str,
    algorithm: str,
    extent: Extent,
    schedule: str = "ebrl",
    without: tuple[str, ...] = (),
    gpus: int = 8,
    model: str = "H100",
) -> Rehearsed | None:
    """None where the schedule cannot be had on so few devices."""
    found, rules = case(name, algorithm, gpus=gpus, model=model, horizons=extent.horizons), SCHEDULES[schedule]
    rules = rules.without(*without)
    try:
        allocation = best(found.problem, found.truth, rules)
    except PlanError:
        return None
    iterations = max(_LEAST, math.ceil(extent.chunk_steps / found.problem.iteration))
    runs = [Rehearsal(found.problem, allocation, found.truth, schedule=rules, seed=1 + n) for n in range(extent.seeds)]
    rates = []
    for run in runs:
        run.run(STARTING)
        run.usage.clear()
        rates.append(throughput(run.run(iterations)))
    limit = roofline(found.problem)
    return Rehearsed(
        rate=statistics.median(rates),
        ceiling=limit.rate,
        binding=limit.binding,
        usage=runs[0].usage.shares(),
        staleness=statistics.fmean(step.staleness for step in runs[0].steps[STARTING:]),
        allocation=allocation,
    )
