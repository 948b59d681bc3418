"""What the repetitions of `train_throughput.py` say about one task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from report import Goal, Report, Spread, ratios

VARIANTS = {
    "sb3-1": "stable-baselines3, 1 torch thread",
    "sb3-2": "stable-baselines3, 2 torch threads",
    "ebrl": "EBRL, schedule ebrl",
    "sync": "EBRL, schedule sync",
    "simulators": "simulators alone (limit)",
}
TASKS = {
    "lift_stock": "robosuite Lift, stock controllers",
    "lift": "robosuite Lift, compiled controllers",
    "reach": "FetchReachDense-v4",
}
SHARES = {
    "simulation": "environment processes",
    "generation": "generation worker",
    "training": "training tasks",
    "engine": "engine (simulation worker)",
    "driver": "driver and Dask scheduler",
    "rest": "training worker otherwise",
    "training process": "stable-baselines3 process",
    "others": "programs of others",
    "idle": "idle",
}
"""What the cores were spent on, and how it is called in tables. A worker is a process: all that it did."""

SPEEDUP_GOAL = 1.08
ENGINE_GOAL_US = 150.0


@attrs.define(frozen=True, kw_only=True)
class TaskResults:
    task: str
    settings: dict[str, Any]
    """What the workflow was called with."""
    rounds: dict[str, list[dict[str, Any]]]
    """Variant -> one result per repetition."""

    @property
    def rates(self) -> dict[str, list[float]]:
        """Environment steps/s by variant."""
        return {variant: [result["env_steps_per_s"] for result in rounds] for variant, rounds in self.rounds.items()}

    @property
    def baseline(self) -> str:
        """The better of the stable-baselines3 variants."""
        rates = {name: Spread.of(values).median for name, values in self.rates.items() if name.startswith("sb3-")}
        return max(rates, key=lambda name: rates[name])

    @property
    def speedups(self) -> dict[str, Spread]:
        """Ratio to the baseline by variant."""
        rates = self.rates
        return {variant: ratios(values, rates[self.baseline]) for variant, values in rates.items()}

    @property
    def cpu_us(self) -> dict[str, dict[str, Spread]]:
        """By variant: CPU microseconds per environment step by what they were spent on, under keys of `SHARES`."""
        return {
            name: {
                key: Spread.of([1e6 * r["grown"][key] / r["grown"].get("rolled_out", r["env_steps"]) for r in rounds])
                for key in SHARES
                if key in rounds[0]["grown"]
            }
            for name, rounds in self.rounds.items()
            if "grown" in rounds[0]
        }

    @property
    def shares(self) -> dict[str, dict[str, float]]:
        """By variant: median share of all cores by what they were spent on, under the keys of `SHARES`."""
        found = {}
        for name, rounds in self.rounds.items():
            if "grown" in rounds[0]:
                shares = [_shares(result["grown"], result["wall_s"] * result["cores"]) for result in rounds]
                found[name] = {key: Spread.of([share[key] for share in shares]).median for key in shares[0]}
        return found

    def add_to(self, report: Report) -> None:
        """Figures and tables."""
        rates, speedups, shares, cpu_us = self.rates, self.speedups, self.shares, self.cpu_us
        report.figures[self.task] = {
            "settings": self.settings,
            "baseline": self.baseline,
            "env_steps_per_s": {name: Spread.of(values) for name, values in rates.items()},
            "ratio": speedups,
            "shares": shares,
            "cpu_us_per_env_step": cpu_us,
            "repetitions": self.rounds,
        }
        sizes = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        report.table(
            f"{TASKS[self.task]}, training included ({sizes}); ratio to {VARIANTS[self.baseline]}",
            ["", "environment steps/s", "ratio"],
            [[VARIANTS[name], Spread.of(rates[name]).text(), speedups[name].text(".2f")] for name in rates],
        )
        self._table(report, "share of all cores, %", lambda name, key: f"{100 * shares[name][key]:.1f}")
        self._table(report, "CPU us per environment step", lambda name, key: cpu_us[name][key].text())

    def add_goals(self, report: Report) -> None:
        """Only Lift with the simulator as its makers ship it has goals: the same work on both sides."""
        if self.task != "lift_stock":
            return
        speedup, engine_us = self.speedups["ebrl"].median, self.cpu_us["ebrl"]["engine"].median
        report.goals += [
            Goal(name="Lift, EBRL over stable-baselines3", value=speedup, goal=SPEEDUP_GOAL),
            Goal(name="Lift, engine us per environment step", value=engine_us, goal=ENGINE_GOAL_US, at_least=False),
        ]

    def _table(self, report: Report, title: str, cell: Callable[[str, str], str]) -> None:
        """One row per use of the CPU; `cell` raises KeyError where a variant has no such number."""

        def text(name: str, key: str) -> str:
            try:
                return cell(name, key)
            except KeyError:
                return ""

        rows = [
            [label, *(text(name, key) for name in (self.baseline, "ebrl", "sync"))] for key, label in SHARES.items()
        ]
        report.table(
            f"{TASKS[self.task]}: {title}",
            ["", "stable-baselines3", "EBRL, ebrl", "EBRL, sync"],
            [row for row in rows if any(row[1:])],
        )


def _shares(grown: dict[str, float], available_s: float) -> dict[str, float]:
    """What a run used, what others used meanwhile, and the remainder; of `available_s` core-seconds."""
    ours = {key: grown[key] / available_s for key in SHARES if key in grown}
    total = sum(ours.values())
    others = max(0.0, grown["machine"] / available_s - total)
    return ours | {"others": others, "idle": max(0.0, 1.0 - total - others)}
