"""A profile as a table for people, and what is shown while it is measured."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.status import Status
from rich.table import Table
from rich.text import Text

from ebrl.planner.profile import Measured, Profile


class ProfileProgress:
    """Says what is being measured, and every point as it is found. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("starting the workers", console=console)

    def __enter__(self) -> ProfileProgress:
        self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._status.stop()

    def phase(self, name: str) -> None:
        self._status.update(f"measuring {name}")

    def point(self, stage: str, measured: Measured) -> None:
        self._console.print(
            f"{stage}: {measured.resource} {measured.quota:g}, batch {measured.batch}: "
            f"{measured.rate:,.0f} chunk-steps/s, {1e3 * measured.p50_s:.2f} ms, +-{measured.interval:.0%}",
            markup=False,
            highlight=False,
        )


def profile_table(profile: Profile) -> RenderableType:
    """All points, then how much more each stage needs beside the others."""
    table = Table(header_style="bold")
    for name in (
        "stage",
        "on",
        "quota",
        "batch",
        "chunk-steps/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "CPU ms",
        "MiB",
        "+-",
    ):
        table.add_column(name, justify="left" if name in ("stage", "on") else "right", no_wrap=True)
    for stage, rows in profile.stages.items():
        for row in rows:
            times = (f"{1e3 * value:.2f}" for value in (row.mean_s, row.p50_s, row.p99_s, row.core_s))
            table.add_row(
                stage, row.resource, f"{row.quota:g}", str(row.batch), f"{row.rate:,.0f}", *times,
                f"{row.memory_mib:,.0f}", f"{row.interval:.0%}",
            )  # fmt: skip
    head = f"{profile.workflow}: {profile.simulator} on {profile.machine}"
    beside = ", ".join(f"{stage} {ratio:.2f}x" for stage, ratio in profile.together.items())
    return Group(Text(head, style="bold"), table, Text(f"CPU time beside the other stages: {beside or 'not measured'}"))
