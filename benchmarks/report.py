"""Report: what a side-by-side benchmark prints, and keeps as ``benchmarks/results/NAME.json``.

Shared by all comparisons. A figure is the median over repetitions with its extremes; a goal is a figure
with a bound that was set before the measurement.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import statistics
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from ebrl.resources.pool import ResourcePool

WIDTH = 120
RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "ebrl",
    "numpy",
    "torch",
    "distributed",
    "stable-baselines3",
    "gymnasium",
    "gymnasium-robotics",
    "robosuite",
    "mujoco",
)
BUSY_LOAD = 0.5
"""Load average before the first measurement from which a report says that the machine was not its own."""


def wide_console() -> Console:
    """Tables are not cut where the output is a file."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


@attrs.define(frozen=True)
class Spread:
    """One number measured several times."""

    median: float
    least: float
    most: float
    repetitions: int

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Raises ValueError when there is no value."""
        if not values:
            raise ValueError("a spread needs at least one value")
        return Spread(statistics.median(values), min(values), max(values), len(values))

    def text(self, form: str = ".0f") -> str:
        """``141 [138 .. 144]``, or ``141`` of a single measurement."""
        if self.repetitions == 1:
            return f"{self.median:{form}}"
        return f"{self.median:{form}} [{self.least:{form}} .. {self.most:{form}}]"


def ratios(of: Sequence[float], to: Sequence[float]) -> Spread:
    """Ratio within each repetition, so that what slows a whole round down cancels out."""
    return Spread.of([ours / theirs for ours, theirs in zip(of, to, strict=True)])


@attrs.define(frozen=True, kw_only=True)
class Goal:
    """A bound on a figure."""

    name: str
    value: float
    goal: float
    at_least: bool = True
    """Else `value` must stay below `goal`."""

    @property
    def met(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value < self.goal

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "goal": self.goal, "met": self.met}


def machine() -> dict[str, Any]:
    """The part of this machine that the process may use, and how busy it is now."""
    pool = ResourcePool.discover()
    return {
        "processor": _processor(),
        "cores": len(pool.cores),
        "memory_mib": pool.memory_mib,
        "gpus": [gpu.name for gpu in pool.gpus],
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": round(os.getloadavg()[0], 2),
    }


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Installed versions; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@attrs.define(kw_only=True)
class Report:
    """Collects figures, goals and tables of one benchmark; the machine is described when it is made."""

    name: str
    command: str = attrs.field(factory=lambda: shlex.join(["python", *_relative(sys.argv)]))
    began: str = attrs.field(factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: dict[str, Any] = attrs.field(factory=machine)
    versions: dict[str, str] = attrs.field(factory=versions)
    figures: dict[str, Any] = attrs.field(factory=dict)
    goals: list[Goal] = attrs.field(factory=list)
    tables: list[Table] = attrs.field(factory=list)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table; the first column holds names, the others numbers."""
        table = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self.tables.append(table)

    def show(self, console: Console) -> None:
        """Print the machine, all tables and the goals."""
        here = self.machine
        console.print(f"{here['processor']}, {here['cores']} cores, {here['memory_mib']} MiB")
        console.print(", ".join(f"{name} {version}" for name, version in self.versions.items()))
        if here["load_average"] > BUSY_LOAD:
            console.print(
                f"The machine was busy before the start: load average {here['load_average']}.", style="yellow"
            )
        for table in self.tables:
            console.print(table)
        for goal in self.goals:
            wanted = f"{'at least' if goal.at_least else 'below'} {goal.goal:g}"
            outcome = "met" if goal.met else "not met"
            console.print(f"Goal {goal.name}: {goal.value:.4g}, {wanted}: {outcome}")

    def plain(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "began": self.began,
            "command": self.command,
            "machine": self.machine,
            "versions": self.versions,
            "figures": self.figures,
            "goals": [goal.plain() for goal in self.goals],
        }

    def save(self, folder: Path = RESULTS) -> Path:
        """Write ``NAME.json`` in one piece; returns where."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self.plain(), indent=2, default=attrs.asdict) + "\n")
        unfinished.replace(path)
        return path


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "unknown processor"


def _relative(arguments: Sequence[str]) -> list[str]:
    """Results are shared: no folder of this machine belongs in them."""
    root = str(RESULTS.parents[1]) + os.sep
    return [
        str(Path(argument).resolve()).removeprefix(root) if os.path.exists(argument) else argument
        for argument in arguments
    ]
