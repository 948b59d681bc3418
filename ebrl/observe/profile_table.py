"""A profile as a table for people, within 80 columns; its file says more."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebrl.planner.profile import Measured, Profile

COLUMNS = ("stage", "on", "batch", "chunk-steps/s", "+-", "p50 ms", "P99 ms", "CPU ms")


def profile_table(profile: Profile) -> RenderableType:
    """All points by quota and batch, then how much more each stage needs beside the others."""
    table = Table(header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("stage", "on") else "right", no_wrap=name != "on")
    for stage, rows in profile.stages.items():
        for index, row in enumerate(sorted(rows, key=lambda row: (row.resource, row.quota, row.batch))):
            table.add_row(stage if index == 0 else "", *_row(stage, row))
        table.add_section()
    head = f"{profile.workflow}: {profile.simulator} on {profile.machine}"
    beside = ", ".join(f"{stage} {ratio:.2f}x" for stage, ratio in profile.together.items())
    below = Text(f"CPU time beside the other stages: {beside or 'not measured'}")
    if not profile.missing:
        below.append(f"\nthe whole pipeline reaches {profile.efficiency:.0%} of what these costs predict")
    return Group(Text(head, style="bold"), table, below)


def _row(stage: str, row: Measured) -> tuple[str, ...]:
    return (
        row.place(stage),
        str(row.batch),
        f"{row.rate:,.0f}" if row.rate >= 10 else f"{row.rate:.2g}",
        f"{100 * row.interval:.0f} %",
        *(milliseconds(value) for value in (row.p50_s, row.p99_s, row.core_s)),
    )


def milliseconds(seconds: float) -> str:
    """Three digits, but no exponent: ``0.09``, ``12.3``, ``1,234``."""
    value = 1e3 * seconds
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
