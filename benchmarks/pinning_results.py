"""What the repetitions of `pinning.py` say about binding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from report import Report, Spread, ratios

VARIANTS = {"os": "a: OS scheduling", "dispatched": "b: dispatcher", "bound": "c: dispatcher, bound"}
PAIRS = {"b/a": ("dispatched", "os"), "c/a": ("bound", "os"), "c/b": ("bound", "dispatched")}
LATENCIES = ("mean", "P50", "P99")
PAYS = 1.03
"""Binding pays where all rounds gain more than this, over the dispatcher without it."""


@attrs.define(frozen=True, kw_only=True)
class Cost:
    """What the environments of a condition cost."""

    label: str
    simulator: str
    """Its address."""


_SPIN = "emulated:constant?mode=spin&step_s=0.004&reset_s=0.004&horizon=400"
COSTS = {
    "equal": Cost(label="Equal costs (emulated, 4 ms)", simulator=_SPIN),
    "straggler": Cost(
        label="One straggler (emulated, 16 among 4 ms)", simulator=f"{_SPIN}&stragglers=0&straggler_factor=4"
    ),
    "lift": Cost(label="robosuite Lift, compiled controller", simulator="robosuite:Lift"),
}


@attrs.define(frozen=True, kw_only=True)
class Condition:
    cost: str
    per_core: int
    rounds: dict[str, list[dict[str, Any]]]
    """Variant -> one result per repetition."""

    @property
    def rates(self) -> dict[str, list[float]]:
        """Environment steps/s by variant."""
        return {variant: [result["env_steps_per_s"] for result in rounds] for variant, rounds in self.rounds.items()}

    def chunk_ms(self, figure: str) -> dict[str, list[float]]:
        """Milliseconds of one chunk by variant; `figure` is one of `LATENCIES`."""
        return {variant: [result["chunk_ms"][figure] for result in rounds] for variant, rounds in self.rounds.items()}

    @property
    def gains(self) -> dict[str, Spread]:
        """How many times the throughput, under the keys of `PAIRS`."""
        rates = self.rates
        return {pair: ratios(rates[ours], rates[theirs]) for pair, (ours, theirs) in PAIRS.items()}

    def latency_gains(self, figure: str) -> dict[str, Spread]:
        """How many times shorter a chunk is, likewise: above 1 the first of the pair is better."""
        took = self.chunk_ms(figure)
        return {pair: ratios(took[theirs], took[ours]) for pair, (ours, theirs) in PAIRS.items()}

    @property
    def verdict(self) -> str:
        """One sentence: whether binding pays here."""
        gain = self.gains["c/b"]
        if gain.least > PAYS:
            outcome = f"binding pays: c/b is {gain.text('.3f')}, above {PAYS:g} throughout"
        elif gain.most < 1 / PAYS:
            outcome = f"binding costs: c/b is {gain.text('.3f')}, below {1 / PAYS:.2f} throughout"
        else:
            outcome = f"binding does not pay: c/b is {gain.text('.3f')}, not above {PAYS:g} throughout"
        return f"{COSTS[self.cost].label}, {self.per_core} per core: {outcome}."

    def plain(self) -> dict[str, Any]:
        return {
            "env_steps_per_s": {variant: Spread.of(values) for variant, values in self.rates.items()},
            "chunk_ms": {
                figure: {variant: Spread.of(values) for variant, values in self.chunk_ms(figure).items()}
                for figure in LATENCIES
            },
            "gain": self.gains,
            "latency_gain": {figure: self.latency_gains(figure) for figure in LATENCIES},
            "verdict": self.verdict,
            "repetitions": self.rounds,
        }


def add_to(report: Report, conditions: Sequence[Condition]) -> None:
    """Figures and tables."""
    for cost in dict.fromkeys(condition.cost for condition in conditions):
        found, described = [condition for condition in conditions if condition.cost == cost], COSTS[cost]
        report.figures[cost] = {
            "simulator": described.simulator,
            **{f"{condition.per_core} per core": condition.plain() for condition in found},
        }
        report.table(
            described.label,
            ["per core", "environment steps/s", *(f"chunk {figure}, ms" for figure in LATENCIES)],
            [_row(condition, variant) for condition in found for variant in VARIANTS],
        )
        report.table(
            f"{described.label}: ratios, above 1 the first is better",
            ["per core", *PAIRS],
            [
                [f"{condition.per_core}, {what}", *(gain.text(".3f") for gain in gains.values())]
                for condition in found
                for what, gains in (
                    ("throughput", condition.gains),
                    ("chunk mean", condition.latency_gains("mean")),
                    ("chunk P99", condition.latency_gains("P99")),
                )
            ],
        )


def _row(condition: Condition, variant: str) -> list[str]:
    latencies = (Spread.of(condition.chunk_ms(figure)[variant]).text(".1f") for figure in LATENCIES)
    rate = Spread.of(condition.rates[variant]).text()
    return [f"{condition.per_core}, {VARIANTS[variant]}", rate, *latencies]
