"""What the repetitions of `policy_staleness.py` say about one task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from report import Report, Spread

VARIANTS = {
    "staleness_1": ("schedule ebrl, max_staleness 1", "ebrl", 1),
    "staleness_2": ("schedule ebrl, max_staleness 2", "ebrl", 2),
    "sync": ("schedule sync", "sync", 1),
}
"""Variant -> what it is called, its schedule, and the workflow's bound, which sync tightens to 0."""
TASKS = {"lift": "lift_ppo (robosuite Lift)", "reach": "reach_ppo (FetchReachDense-v4)"}
LARGEST = 2
"""Staleness that any variant allows."""


@attrs.define(frozen=True, kw_only=True)
class StalenessResults:
    task: str
    settings: Mapping[str, Any]
    rounds: Mapping[str, list[dict[str, Any]]]
    """Variant -> one result per repetition, with ``chunks`` by staleness."""

    def shares(self, variant: str) -> dict[int, Spread]:
        """Share of the chunks, 0..1, by staleness: every one up to the largest allowed or seen."""
        seen = max(LARGEST, self.largest(variant))
        return {
            staleness: Spread.of([_share(result["chunks"], staleness) for result in self.rounds[variant]])
            for staleness in range(seen + 1)
        }

    def mean(self, variant: str) -> Spread:
        return Spread.of([_mean(result["chunks"]) for result in self.rounds[variant]])

    def largest(self, variant: str) -> int:
        """In any repetition."""
        return max(int(staleness) for result in self.rounds[variant] for staleness in result["chunks"])

    def rate(self, variant: str) -> Spread:
        """Environment steps/s."""
        return Spread.of([result["env_steps_per_s"] for result in self.rounds[variant]])

    def add_to(self, report: Report) -> None:
        """Figures and the table."""
        report.figures[self.task] = {
            "settings": self.settings,
            **{
                variant: {
                    "env_steps_per_s": self.rate(variant),
                    "share_by_staleness": self.shares(variant),
                    "staleness_mean": self.mean(variant),
                    "staleness_max": self.largest(variant),
                }
                for variant in self.rounds
            },
            "repetitions": self.rounds,
        }
        largest = max(max(self.shares(variant)) for variant in self.rounds)
        sizes = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        report.table(
            f"{TASKS[self.task]}, training included ({sizes}): share of chunks by staleness, %",
            ["", *map(str, range(largest + 1)), "mean", "max", "environment steps/s"],
            [self._row(variant, largest) for variant in self.rounds],
        )

    def _row(self, variant: str, largest: int) -> list[str]:
        shares = self.shares(variant)
        return [
            VARIANTS[variant][0],
            *(
                f"{100 * shares[staleness].median:.1f}" if staleness in shares else ""
                for staleness in range(largest + 1)
            ),
            self.mean(variant).text(".2f"),
            str(self.largest(variant)),
            self.rate(variant).text(),
        ]


def _share(chunks: Mapping[str, int], staleness: int) -> float:
    return chunks.get(str(staleness), 0) / sum(chunks.values())


def _mean(chunks: Mapping[str, int]) -> float:
    return sum(int(staleness) * count for staleness, count in chunks.items()) / sum(chunks.values())
