"""A comparison: what schedules reach on machines, each at its best, and where the rest of the time goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs

from ebrl.errors import PlanError
from ebrl.graph.schedules import Schedule
from ebrl.planner.problem import Allocation, Problem
from ebrl.planner.roofline import Roofline, roofline
from ebrl.rehearse.best import best, choices
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.rehearse.trace import Trace
from ebrl.rehearse.truth import TrueCosts

STARTING = 4
"""Iterations until the pipeline is filled, which count for nothing."""
TRACED = 2
"""Iterations that a trace shows."""


@attrs.define(frozen=True, kw_only=True)
class Trial:
    """One rehearsal to make."""

    title: str
    """Of its schedule, as in `Plan.title`."""
    schedule: Schedule
    gpus: int
    """Of the machine, whether the problem has a use for them or not."""
    problem: Problem


@attrs.define(frozen=True, kw_only=True)
class Outcome:
    """What a trial reached."""

    title: str
    gpus: int
    allocation: Allocation
    rate: float
    """Chunk-steps per second."""
    roofline: Roofline
    usage: Mapping[str, Mapping[str, float]]
    """As `Usage.shares`."""
    by_staleness: Mapping[int, float]
    """Staleness -> share of the chunks that were trained on."""

    @property
    def of_roofline(self) -> float:
        return self.rate / self.roofline.rate

    @property
    def mean_staleness(self) -> float:
        return sum(value * share for value, share in self.by_staleness.items())

    @property
    def median_staleness(self) -> int:
        below = 0.0
        for value, share in sorted(self.by_staleness.items()):
            below += share
            if below >= 0.5:
                return value
        return self.most_stale

    @property
    def most_stale(self) -> int:
        return max(self.by_staleness)

    def figures(self) -> dict[str, Any]:
        """For a file: all of it, and what follows from it."""
        derived = ("of_roofline", "mean_staleness", "median_staleness", "most_stale")
        return attrs.asdict(self) | {name: getattr(self, name) for name in derived}


def trials(
    problems: Mapping[int, Problem], schedules: Mapping[str, Schedule], *, named: bool
) -> tuple[list[Trial], list[str]]:
    """(rehearsals in order, what is left out and why), for every problem, which its number of GPUs names.

    schedules: by title. named: the user asked for these; PlanError where a machine allows one not. Otherwise those are
    left out, and it is an error only where none remains.
    """
    found, left_out, error = list[Trial](), list[str](), PlanError("there is no schedule to rehearse")
    for gpus, problem in problems.items():
        for title, schedule in schedules.items():
            try:
                choices(problem, schedule)
            except PlanError as refused:
                where = f"{title} on {gpus} GPU{'' if gpus == 1 else 's'}"
                error = PlanError(refused.message, where=where, hint=refused.hint)
                if named:
                    raise error from None
                left_out.append(f"{where} is left out: {refused.message}")
            else:
                found.append(Trial(title=title, schedule=schedule, gpus=gpus, problem=problem))
    if not found:
        raise error
    return found, left_out


def rehearsed(trial: Trial, truth: TrueCosts, *, iterations: int, seed: int) -> tuple[Outcome, Trace]:
    """`iterations` of a trial once its pipeline is filled; the trace is of the last `TRACED` of them."""
    problem = trial.problem
    allocation = best(problem, truth, trial.schedule, seed=seed)
    rehearsal = Rehearsal(problem, allocation, truth, schedule=trial.schedule, seed=seed)
    rehearsal.run(STARTING)
    rehearsal.usage.clear()
    traced = min(TRACED, iterations)
    steps = rehearsal.run(iterations - traced) if iterations > traced else []
    trace = Trace(rehearsal)
    steps = [*steps, *rehearsal.run(traced)]
    chunks = sum((Counter(step.by_staleness) for step in steps), Counter[int]())
    outcome = Outcome(
        title=trial.title,
        gpus=trial.gpus,
        allocation=allocation,
        rate=throughput(steps),
        roofline=roofline(problem),
        usage=rehearsal.usage.shares(),
        by_staleness={value: count / chunks.total() for value, count in sorted(chunks.items())},
    )
    return outcome, trace
