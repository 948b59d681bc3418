"""Reallocation: what the feedback planner does when costs drift in mid-run, as the paper's trace shows it.

The paper's drift: episodes become 31 % shorter and training dearer. Compared are the first plan, kept,
and the planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from problems import case
from replanning_costs import DEARER, SHORTER

from ebrl.observe.rehearsal_table import allocation_text
from ebrl.planner.allocate import allocate
from ebrl.planner.feedback import FeedbackPlanner
from ebrl.rehearse.rehearsal import Rehearsal, Step, throughput

NAME = "robocasa_openpi"
CHANGE_S = 30.0
COLUMNS = ("iterations", "first plan kept, chunk-steps/s", "feedback planner", "its allocation")


@attrs.define(frozen=True, kw_only=True)
class Reallocation:
    """Iterations of one horizon; the drift comes after the first third."""

    drift_at: int
    rows: Sequence[Sequence[str]]
    kept: Sequence[float]
    """Chunk-steps per second of every iteration."""
    replanned: Sequence[float]
    gain: float
    """Of the planner, in the last third."""

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


def reallocation(*, iterations: int) -> Reallocation:
    found, third = case(NAME, "grpo", horizons=1), iterations // 3
    first = allocate(found.problem).allocation
    window = found.problem.window
    drifted = attrs.evolve(
        found.truth, episode=round(window * SHORTER), training=found.truth.training.corrected(DEARER)
    )
    planner = FeedbackPlanner(problem=found.problem, allocation=first, steps_left=iterations, change_s=CHANGE_S)
    kept, replanned = (
        Rehearsal(found.problem, first, found.truth, drift={third: drifted}, planner=each, change_s=CHANGE_S, seed=1)
        .run(iterations)
        for each in (None, planner)
    )  # fmt: skip
    return Reallocation(
        drift_at=third,
        rows=[_row(kept, replanned, start, start + third) for start in range(0, 3 * third, third)],
        kept=[step.measured.throughput for step in kept],
        replanned=[step.measured.throughput for step in replanned],
        gain=throughput(replanned[2 * third :]) / throughput(kept[2 * third :]) - 1,
    )


def _row(kept: list[Step], replanned: list[Step], start: int, end: int) -> list[str]:
    steps = replanned[start:end]
    rates = (f"{throughput(rows[start:end]):.1f}" for rows in (kept, replanned))
    return [f"{start} to {end - 1}", *rates, allocation_text(steps[-1].allocation)]
