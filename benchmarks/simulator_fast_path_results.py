"""What `simulator_fast_path.py` measured: two sides of a setting, and what the second one saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from report import Goal, Report, Spread, ratios

GOALS = {
    "robosuite:Lift?controller=OSC_POSE": 2.0,
    "robosuite:Lift?controller=OSC_POSITION": 2.0,
    "libero:libero_object/0": 2.0,
}
"""Least ratio of CPU time, stock over compiled, by simulator."""
CLOCKS = {"cpu": "CPU", "wall": "wall"}


@attrs.define(frozen=True, kw_only=True)
class Comparison:
    """The first side is the slow one."""

    simulator: str
    """Its address, without the setting that is compared."""
    rounds: dict[str, list[dict[str, float]]]
    """Side -> milliseconds by clock, one entry per round."""
    control: str
    """The controllers of the second side: ``compiled``, or ``stock`` and why."""

    def spent_ms(self, side: str, clock: str) -> Spread:
        return Spread.of([found[clock] for found in self.rounds[side]])

    def ratio(self, clock: str) -> Spread:
        """First over second side, within each round."""
        slow, fast = ([found[clock] for found in rounds] for rounds in self.rounds.values())
        return ratios(slow, fast)

    @property
    def line(self) -> str:
        sides = ", ".join(f"{side} {self.spent_ms(side, 'cpu').median:.2f} ms" for side in self.rounds)
        return f"{short(self.simulator)}: {sides} of CPU, ratio {self.ratio('cpu').text('.2f')}; {self.control}"

    def plain(self) -> dict[str, Any]:
        return {
            "ms": {side: {clock: self.spent_ms(side, clock) for clock in CLOCKS} for side in self.rounds},
            "control": self.control,
            "ratio": {clock: self.ratio(clock) for clock in CLOCKS},
            "rounds": self.rounds,
        }


def add_to(report: Report, results: dict[str, tuple[str, Sequence[Comparison]]], *, judged: bool) -> None:
    """Figures and tables by name, with their titles; goals are those of ``steps``."""
    for name, (title, comparisons) in results.items():
        report.figures[name] = {found.simulator: found.plain() for found in comparisons}
        if comparisons:
            _table(report, title, comparisons)
    if judged:
        report.goals += [
            Goal(
                name=f"{short(found.simulator)}, CPU of a stock step over that of a compiled one",
                value=found.ratio("cpu").median,
                goal=GOALS[found.simulator],
            )
            for found in results["steps"][1]
            if found.simulator in GOALS
        ]


def _table(report: Report, title: str, comparisons: Sequence[Comparison]) -> None:
    sides = tuple(comparisons[0].rounds)
    rows = [
        [
            f"{short(found.simulator)}: {CLOCKS[clock]}",
            *(found.spent_ms(side, clock).text(".2f") for side in sides),
            found.ratio(clock).text(".2f"),
        ]
        for found in comparisons
        for clock in CLOCKS
    ]
    report.table(title, ["", *(f"{side}, ms" for side in sides), "ratio"], rows)


def short(simulator: str) -> str:
    """``robosuite:Lift?controller=OSC_POSE`` -> ``Lift, OSC_POSE``."""
    target, _, options = simulator.partition(":")[2].partition("?")
    return ", ".join([target, *(option.partition("=")[2] for option in options.split("&") if option)])
