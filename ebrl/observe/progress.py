"""Live progress: a display that refreshes in a terminal, one plain line per iteration elsewhere.

`ProgressState` gathers events; `render` draws it. `LiveProgress` and `PlainProgress` are the observers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ebrl.observe.events import Event

ROWS = 12
"""Iterations shown at once; fewer where the terminal is low."""
WARNINGS = 3


@attrs.define
class ProgressState:
    """What the display knows. Pure: events in, nothing out."""

    workflow: str = ""
    schedule: str = ""
    run_dir: str = ""
    dashboard_link: str = ""
    iterations: deque[Mapping[str, Any]] = attrs.field(factory=lambda: deque(maxlen=ROWS))
    reports: dict[str, tuple[int, Mapping[str, Any]]] = attrs.field(factory=dict)
    """stage -> iteration and metrics of its last report."""
    warnings: deque[str] = attrs.field(factory=lambda: deque(maxlen=WARNINGS))
    warned: int = 0
    """All warnings of the run."""
    replanned: str = ""
    """What the planner did last."""
    status: str = "starting the workers"

    def update(self, event: Event) -> None:
        data = event.data
        match event.kind:
            case "started":
                self.workflow, self.schedule = data["plan"].workflow, data["plan"].title
                self.run_dir, self.dashboard_link = data["run_dir"], data["dashboard_link"]
                self.status = "waiting for the first iteration"
            case "iteration":
                self.iterations.append(data)
                self.status = ""
            case "report":
                self.reports[data["stage"]] = (data["iteration"], data["metrics"])
            case "replan" | "outcome" | "revert":
                self.replanned = replan_line(event)
            case "environment_lost" | "worker_replaced" | "warning" | "checkpoint_failed":
                self.warnings.append(warning(event))
                self.warned += 1
            case "waiting":
                self.status = f"waiting for {data['tasks']}"
            case "stopping":
                self.status = f"stopping: {data['reason']}"


_LONGEST_LINE = 300  # characters of a message


class LiveProgress:
    """Redraws a block of the terminal with every event. A context manager: it owns the terminal inside."""

    def __init__(self, console: Console) -> None:
        self.state = ProgressState()
        self._console = console
        # No refresh thread: on two cores it would take time from the simulators, and only events change anything.
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> LiveProgress:
        self._live.start()
        self._live.update(render(self.state, self._console.height), refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        self.state.update(event)
        self._live.update(render(self.state, self._console.height), refresh=True)
        if event.kind == "finished":
            self._live.stop()
            print_summary(self._console, self.state.workflow, event.data)


class PlainProgress:
    """Prints lines that never change: for logs, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self.state = ProgressState()
        self._console = console

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __call__(self, event: Event) -> None:
        self.state.update(event)
        match event.kind:
            case "started":
                self._print(f"{self.state.workflow}, schedule {self.state.schedule}")
                self._print(f"  run directory  {self.state.run_dir}")
                self._print(f"  dashboard      {self.state.dashboard_link}")
            case "iteration":
                self._print(iteration_line(event.data))
            case "report":
                self._print(report_line(event.data["stage"], event.data["iteration"], event.data["metrics"]))
            case "environment_lost" | "worker_replaced" | "warning" | "checkpoint_failed":
                self._print(f"warning: {warning(event)}")
            case "replan" | "outcome" | "revert":
                self._print(self.state.replanned)
            case "waiting" | "stopping":
                self._print(self.state.status)
            case "finished":
                print_summary(self._console, self.state.workflow, event.data)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._console.file.flush()


def progress(console: Console) -> LiveProgress | PlainProgress:
    """The display that fits where `console` writes."""
    return LiveProgress(console) if console.is_terminal and not console.is_dumb_terminal else PlainProgress(console)


def render(state: ProgressState, height: int) -> RenderableType:
    """The whole display, at most `height` lines where the terminal is not very low."""
    if not state.workflow:
        return Text(state.status, style="bold")
    header = Table.grid(padding=(0, 2))
    header.add_row("workflow", Text(state.workflow, style="bold"))
    header.add_row("schedule", state.schedule)
    header.add_row("dashboard", Text(state.dashboard_link, style="cyan"))
    header.add_row("run", Text(state.run_dir, overflow="fold"))
    parts: list[RenderableType] = [Panel(header, title="ebrl", title_align="left", expand=False)]
    below: list[RenderableType] = []
    if state.iterations and (idle := idle_line(state.iterations[-1])):
        below.append(Text(idle))
    for stage, (iteration, metrics) in state.reports.items():
        below.append(Text(report_line(stage, iteration, metrics), style="green", overflow="ellipsis", no_wrap=True))
    if state.replanned:
        below.append(Text(state.replanned, style="cyan", overflow="ellipsis", no_wrap=True))
    if state.warned:
        below.append(Text(f"{state.warned} warning(s), the last:", style="yellow"))
        for text in state.warnings:
            below.append(Text(f"  {text.splitlines()[0]}", style="yellow", overflow="ellipsis", no_wrap=True))
    if state.status:
        below.append(Text(state.status, style="bold"))
    if state.iterations:
        rows = max(1, min(ROWS, height - len(below) - 11))
        parts.append(_iteration_table(list(state.iterations)[-rows:]))
    return Group(*parts, *below)


COLUMNS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "iteration": lambda row: _count(row.get("iteration")),
    "env steps": lambda row: _count(row.get("env_steps")),
    "steps/s": lambda row: _number(row.get("env_steps_per_s"), ".1f"),
    "success": lambda row: _share(row.get("success")),
    "return": lambda row: _number(row.get("episode_return"), ".2f"),
    "staleness": lambda row: f"{_number(row.get('staleness_mean'), '.2f')}/{_count(row.get('staleness_max'))}",
    "queue": lambda row: _count(row.get("queue_depth")),
}
"""Title of a column -> its text for one iteration. Staleness is mean/max."""


def _iteration_table(rows: list[Mapping[str, Any]]) -> Table:
    table = Table(header_style="bold")
    for title in COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(text(row) for text in COLUMNS.values()))
    return table


def iteration_line(row: Mapping[str, Any]) -> str:
    """One iteration as one line."""
    parts = [f"{title} {text(row)}" for title, text in COLUMNS.items()]
    if idle := idle_line(row):
        parts.append(idle)
    return "  ".join(parts)


def idle_line(row: Mapping[str, Any]) -> str:
    """``idle: simulate 3 %, train_ppo 55 %``; empty where the iteration says nothing about it."""
    shares = {key.removeprefix("idle/"): value for key, value in row.items() if key.startswith("idle/")}
    return "idle: " + ", ".join(f"{stage} {_share(share)}" for stage, share in shares.items()) if shares else ""


def report_line(stage: str, iteration: int, metrics: Mapping[str, Any]) -> str:
    values = (
        f"{name} {_share(value) if name == 'success' else _number(value, '.4g')}" for name, value in metrics.items()
    )
    return f"{stage} at iteration {iteration}: " + ", ".join(values)


def replan_line(event: Event) -> str:
    """``plan 1 at iteration 40: generate: batch_size 1 -> 8; +12 % predicted``"""
    data = event.data
    head = f"plan {data['epoch']} at step {data['step']}"
    if event.kind == "outcome":
        return f"{head}: {data['achieved_gain']:+.0%} achieved, {data['predicted_gain']:+.0%} predicted"
    changes = "; ".join(data["changes"]) or "no change"
    if event.kind == "revert":
        return f"{head}: back to the plan before ({data['reason']}): {changes}"
    return f"{head}: {changes}; {data['predicted_gain']:+.0%} predicted"


def warning(event: Event) -> str:
    data = event.data
    if event.kind == "warning":
        return f"{data['stage']}: {data['message']}"
    if event.kind == "checkpoint_failed":
        return f"no checkpoint of iteration {data['iteration']}: {data['message']}"
    if event.kind == "worker_replaced":
        return f"worker {data['worker']} was replaced: {data['cause']}"
    why = "; ".join(filter(None, (shorten(data["message"].partition("\n")[0]), data["hint"])))
    return (
        f"{data['stage']} lost environment {data['environment']} in episode {data['episode']} "
        f"at step {data['step']} (seed {data['seed']}): {why}"
    )


def shorten(line: str) -> str:
    """A line that fits a terminal; `events.jsonl` has all of it."""
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..."


def print_summary(console: Console, workflow: str, summary: Mapping[str, Any]) -> None:
    """The end of a run in a few lines: outcome, success, rate, time, and where the checkpoint is."""
    status, reason = summary.get("status", "finished"), summary.get("reason")
    lines = [f"{workflow}: {status}{f' ({reason})' if reason else ''}"]
    facts = {
        "success": _success(summary),
        "env steps": f"{_count(summary.get('env_steps'))}, {_number(summary.get('env_steps_per_s'), '.1f')} per second",
        "episodes": _count(summary.get("episodes")),
        "wall time": duration(summary.get("wall_s")),
        "staleness": f"at most {_count(summary.get('max_staleness_seen'))}",
        "checkpoint": summary.get("checkpoint") or "none",
        "policy": summary.get("policy") or "",
        "run": summary.get("run_dir") or "",
    }
    if status == "failed" and not summary.get("iterations"):  # there is nothing to tell of
        facts = {"run": facts["run"]}
    lines += [f"  {name:<11} {text}" for name, text in facts.items() if text]
    # An interrupted run says so itself, by its exception.
    if status == "failed" and summary.get("checkpoint"):
        lines.append(f"  continue it with: ebrl run --resume {summary['run_dir']}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _success(summary: Mapping[str, Any]) -> str:
    share = _share(summary.get("success"))
    if share == "-":
        return "the simulator does not tell"
    evaluated = summary.get("success_episodes")
    return f"{share} of {f'{_count(evaluated)} evaluation' if evaluated else 'the last training'} episodes"


def duration(seconds: float | None) -> str:
    """``4.2 s``, ``2 min 14 s`` or ``1 h 03 min``."""
    if seconds is None or math.isnan(seconds):
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _number(value: float | None, spec: str) -> str:
    return "-" if value is None or math.isnan(value) else format(value, spec)


def _count(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{int(value):,}"


def _share(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{100 * value:.0f} %"
