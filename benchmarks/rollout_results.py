"""What the repetitions of `rollout_throughput.py` say about one task, and about two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from report import Goal, Report, Spread, ratios

VARIANTS = {
    "ebrl": "EBRL",
    "sb3": "stable-baselines3 SubprocVecEnv",
    "gymnasium": "Gymnasium AsyncVectorEnv",
    "envpool": "EnvPool (simulators of its own)",
    "limit": "simulators alone (limit)",
}
PEERS = ("sb3", "gymnasium", "envpool")
TASKS = {
    "lift_stock": "robosuite Lift, stock controllers",
    "lift": "robosuite Lift, compiled controllers",
    "reach": "FetchReachDense-v4",
    "pendulum": "Pendulum-v1",
}

LIMIT_GOALS = {"lift_stock": 0.93, "reach": 0.9}
"""Least share of the limit that EBRL reaches."""
PEER_GOAL = 1.0
COMPILED_GOAL = 1.8


@attrs.define(frozen=True, kw_only=True)
class RolloutResults:
    task: str
    settings: Mapping[str, Any]
    rounds: Mapping[str, list[dict[str, Any]]]
    """Variant -> one result per repetition."""
    absent: Mapping[str, str]
    """Variants that cannot take part, and why."""

    @property
    def rates(self) -> dict[str, list[float]]:
        """Environment steps/s by variant."""
        return {variant: [result["env_steps_per_s"] for result in rounds] for variant, rounds in self.rounds.items()}

    @property
    def peers(self) -> list[str]:
        return [variant for variant in PEERS if variant in self.rounds]

    @property
    def best_peer(self) -> str:
        """The one with the highest median rate."""
        rates = self.rates
        return max(self.peers, key=lambda name: Spread.of(rates[name]).median)

    def ratios_to(self, variant: str) -> dict[str, Spread]:
        """Ratio of every variant to this one."""
        rates = self.rates
        return {name: ratios(values, rates[variant]) for name, values in rates.items()}

    @property
    def leads(self) -> dict[str, Spread]:
        """Ratio of EBRL to every variant."""
        rates = self.rates
        return {name: ratios(rates["ebrl"], values) for name, values in rates.items()}

    def add_to(self, report: Report) -> None:
        """Figures and the table."""
        rates, leads, of_limit = self.rates, self.leads, self.ratios_to("limit")
        report.figures[self.task] = {
            "settings": self.settings,
            "env_steps_per_s": {name: Spread.of(values) for name, values in rates.items()},
            "of_limit": of_limit,
            "ebrl_over": leads,
            "absent": self.absent,
            "repetitions": self.rounds,
        }
        sizes = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        rows = [
            [VARIANTS[name], Spread.of(rates[name]).text(), of_limit[name].text(".2f"), leads[name].text(".2f")]
            for name in rates
        ]
        rows += [[f"{VARIANTS[name]}: {reason}", "-", "-", "-"] for name, reason in self.absent.items()]
        report.table(
            f"{TASKS[self.task]}, rollout alone ({sizes})",
            ["", "environment steps/s", "of the limit", "EBRL to this"],
            rows,
        )

    def goals(self) -> list[Goal]:
        """EBRL against the limit and against every peer."""
        leads, name = self.leads, TASKS[self.task]
        goals = [
            Goal(name=f"{name}, EBRL over {VARIANTS[peer]}", value=leads[peer].median, goal=PEER_GOAL)
            for peer in self.peers
        ]
        if self.task in LIMIT_GOALS:
            value = self.ratios_to("limit")["ebrl"].median
            goals.insert(0, Goal(name=f"{name}, EBRL of the limit", value=value, goal=LIMIT_GOALS[self.task]))
        return goals


def compiled_goal(compiled: RolloutResults, stock: RolloutResults) -> Goal:
    """EBRL as it comes, with compiled control, against the best that steps the simulator as its makers ship it."""
    lead = ratios(compiled.rates["ebrl"], stock.rates[stock.best_peer])
    return Goal(
        name=f"Lift, EBRL with compiled controllers over {VARIANTS[stock.best_peer]} with stock ones",
        value=lead.median,
        goal=COMPILED_GOAL,
    )
