"""A profile as a picture: the rate of every stage over its cores or batch size, with the knee. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from ebrl.planner.knee import knee
from ebrl.planner.profile import Measured, Profile

_AXES = {"simulation": "cores", "generation": "batch size (chunk-steps)", "training": "chunk-steps per iteration"}
_WIDE = 4  # times; where an axis covers more than that it is logarithmic
_SIZE = 4.2  # inches per stage

Curve = list[Measured]


def draw(profile: Profile, path: Path) -> None:
    """Write the picture of `profile` to a PNG file."""
    figure = Figure(figsize=(_SIZE * len(profile.stages), 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(profile.stages), squeeze=False)[0]
    for axes, (stage, rows) in zip(panels, profile.stages.items(), strict=True):
        panel(axes, stage, rows)
    figure.suptitle(f"{profile.workflow}: {profile.simulator}, {profile.policy}\non {profile.machine}", fontsize=10)
    figure.supxlabel("bars: 95 % confidence interval", fontsize=8)
    figure.savefig(path, dpi=150)


def panel(axes: Axes, stage: str, rows: tuple[Measured, ...]) -> None:
    """The curves of one stage."""
    xs = sorted({_x(stage, row) for row in rows})
    for name, curve in _curves(stage, rows):
        along, rates = [_x(stage, row) for row in curve], [row.rate for row in curve]
        known = [row.rate * min(row.interval, 1.0) for row in curve]
        found = knee(list(zip(along, rates, strict=True)))
        label = name if found is None else f"{name}, knee at {found[0]:g}"
        line = axes.errorbar(along, rates, yerr=known, marker="o", ms=4, capsize=3, label=label).lines[0]
        if found is not None:
            axes.plot(*found, "o", ms=12, mfc="none", mew=1.5, color=line.get_color())
    axes.set_title(stage)
    axes.set_xlabel(_AXES[stage])
    axes.set_ylabel("rate (chunk-steps/s)")
    axes.set_ylim(bottom=0)
    _ticks(axes, xs)
    axes.grid(alpha=0.3)
    if rows:
        axes.legend(fontsize=8)


def _ticks(axes: Axes, xs: list[float]) -> None:
    """A tick where something was measured."""
    if xs and xs[-1] > _WIDE * xs[0]:
        axes.set_xscale("log", base=2)
    axes.set_xticks(xs)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))


def _curves(stage: str, rows: tuple[Measured, ...]) -> Iterator[tuple[str, Curve]]:
    """(name, points in order): over the cores of a simulation; of the other stages one curve per quota."""
    if stage == "simulation":
        for resource in sorted({row.resource for row in rows}):
            yield resource, sorted((row for row in rows if row.resource == resource), key=lambda row: row.quota)
        return
    for resource, quota in sorted({(row.resource, row.quota) for row in rows}):
        curve = [row for row in rows if (row.resource, row.quota) == (resource, quota)]
        yield curve[0].place(stage), sorted(curve, key=lambda row: row.batch)


def _x(stage: str, row: Measured) -> float:
    return row.quota if stage == "simulation" else row.batch
