"""Rehearsals as a table for people: how fast each schedule is, and below why it is not faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebrl.planner.problem import Allocation, Shares
from ebrl.rehearse.comparison import Outcome
from ebrl.rehearse.usage import BUSY, CORES, GENERATION, SIMULATION, TRAINING

_COLUMNS = {CORES: "cores", GENERATION: "gen.", TRAINING: "train", SIMULATION: "sim."}
_LEAST = 0.005
"""Shares below that are not spoken of."""


def rehearsal_table(outcomes: Sequence[Outcome], chunk: int) -> RenderableType:
    """chunk: control steps of a chunk. Each speed-up is that of the machine's first schedule over the row."""
    several = len({outcome.gpus for outcome in outcomes}) > 1
    resources = [name for name in _COLUMNS if any(name in outcome.usage for outcome in outcomes)]
    table = Table(header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)
    heads = ["chunk-\nsteps/s", "env.\nsteps/s", "of roof-\nline", "first is\nfaster", *_busy_heads(resources)]
    for name in ["GPUs"] * several + ["schedule"]:
        table.add_column(name, justify="right" if name == "GPUs" else "left", vertical="bottom")
    for head in [*heads, "staleness\nmean/P50/max"]:
        table.add_column(head, justify="right", vertical="bottom", no_wrap=True)
    firsts: dict[int, Outcome] = {}
    for outcome in outcomes:
        if outcome.gpus not in firsts and firsts:
            table.add_section()
        first = firsts.setdefault(outcome.gpus, outcome)
        table.add_row(*[str(outcome.gpus)] * several, *_row(outcome, first, chunk, resources))
    below = [binding_line(first, several) for first in firsts.values()]
    below += [line for outcome in outcomes for line in _reasons(outcome, several)]
    # Lines stay whole, so that another program can read them; a terminal wraps them itself.
    return Group(table, *(Text(line, no_wrap=True, overflow="ignore") for line in below))


def binding_line(outcome: Outcome, several: bool) -> str:
    """What no schedule can exceed on the machine of `outcome`, and what sets it: several resources by their parts."""
    where = f"on {_gpus(outcome.gpus)} " if several else ""
    parts = sorted(((part, name) for name, part in outcome.roofline.parts.items() if part >= _LEAST), reverse=True)
    bounds = " and ".join(name if len(parts) == 1 else f"{name} ({part:.0%})" for part, name in parts)
    return f"roofline: {where}no schedule exceeds {_number(outcome.roofline.rate)} chunk-steps/s, bounded by {bounds}"


def summary_line(outcome: Outcome) -> str:
    """``ebrl, 61.1 chunk-steps/s: training 8 x 60 %, ...``."""
    return f"{outcome.title}, {_number(outcome.rate)} chunk-steps/s: {allocation_text(outcome.allocation)}"


def allocation_text(allocation: Allocation) -> str:
    """``training 8 x 60 %, generation 8 x 40 %, batch 8``; on the CPU replicas and threads."""
    training = _shares(allocation.training) or _threads(1, allocation.training_threads)
    replicas, threads = allocation.generation_replicas, allocation.generation_threads
    generation = _shares(allocation.generation) or _threads(replicas, threads)
    simulation = f", simulation {_shares(allocation.simulation)}" if allocation.simulation else ""
    return f"training {training}, generation {generation}{simulation}, batch {allocation.batch}"


def _shares(shares: Shares) -> str:
    """Devices of equal shares together."""
    percents = sorted(set(shares.values()), reverse=True)
    return " + ".join(f"{list(shares.values()).count(percent)} x {percent} %" for percent in percents)


def _threads(replicas: int, threads: int) -> str:
    text = f"{threads} thread{'' if threads == 1 else 's'}"
    return text if replicas == 1 else f"{replicas} x {text}"


def _busy_heads(resources: Sequence[str]) -> list[str]:
    return [f"{'busy' if number == 0 else ''}\n{_COLUMNS[name]}" for number, name in enumerate(resources)]


def _row(outcome: Outcome, first: Outcome, chunk: int, resources: Sequence[str]) -> Iterator[str]:
    yield outcome.title
    yield _number(outcome.rate)
    yield _number(outcome.rate * chunk)
    yield f"{outcome.of_roofline:.0%}"
    yield f"{first.rate / outcome.rate:.2f}x"
    for name in resources:
        yield f"{outcome.usage[name].get(BUSY, 0.0):.0%}" if name in outcome.usage else "-"
    yield f"{outcome.mean_staleness:.2f}/{outcome.median_staleness}/{outcome.most_stale}"


def _reasons(outcome: Outcome, several: bool) -> Iterator[str]:
    where = f" on {_gpus(outcome.gpus)}" if several else ""
    yield f"{outcome.title}{where}: {allocation_text(outcome.allocation)}"
    idle = "; ".join(f"{name} {_idle(shares)}" for name, shares in outcome.usage.items())
    yield f"  idle: {idle}"
    if outcome.most_stale:
        parts = [(value, share) for value, share in outcome.by_staleness.items() if share >= _LEAST]
        yield "  staleness: " + ", ".join(f"{share:.0%} of {value}" for value, share in parts)


def _idle(shares: Mapping[str, float]) -> str:
    causes = sorted(((share, cause) for cause, share in shares.items() if cause != BUSY), reverse=True)
    return ", ".join(f"{share:.0%} {cause}" for share, cause in causes if share >= _LEAST) or "never"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"
