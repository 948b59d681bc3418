"""What is shown while a profile is measured: a bar over the time budget in a terminal, plain lines elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ebrl.planner.profile import Measured

_STARTING = "starting the workers"


class LiveProfileProgress:
    """A bar below the points that were found. A context manager: it owns the terminal inside."""

    def __init__(self, console: Console, budget_s: float) -> None:
        self._console = console
        # No refresh thread: on two cores it would take time from what is measured.
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task(_STARTING, total=budget_s)

    def __enter__(self) -> LiveProfileProgress:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def phase(self, name: str) -> None:
        self._progress.update(self._task, description=f"measuring {name}", refresh=True)

    def time(self, used_s: float) -> None:
        self._progress.update(self._task, completed=used_s, refresh=True)

    def point(self, stage: str, measured: Measured) -> None:
        self._console.print(point_line(stage, measured), markup=False, highlight=False, soft_wrap=True)


class PlainProfileProgress:
    """Prints lines that never change: for logs, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> PlainProfileProgress:
        self._print(_STARTING)
        return self

    def __exit__(self, *error: object) -> None: ...

    def phase(self, name: str) -> None:
        self._print(f"measuring {name}")

    def time(self, used_s: float) -> None: ...

    def point(self, stage: str, measured: Measured) -> None:
        self._print(point_line(stage, measured))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._console.file.flush()


def profile_progress(console: Console, budget_s: float) -> LiveProfileProgress | PlainProfileProgress:
    """The display that fits where `console` writes."""
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveProfileProgress(console, budget_s)
    return PlainProfileProgress(console)


def point_line(stage: str, measured: Measured) -> str:
    """``generation on 2 threads, batch 8: 1,234 chunk-steps/s, 6.48 ms, +-2 %``"""
    return (
        f"{stage} on {measured.place(stage)}, batch {measured.batch}: "
        f"{measured.rate:,.0f} chunk-steps/s, {1e3 * measured.p50_s:.2f} ms, +-{100 * measured.interval:.0f} %"
    )
