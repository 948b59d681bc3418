"""A plan as a table for people: stages with their quotas, rollout loops, notes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebrl.graph.plan import Plan, Quota, StagePlan
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.explain import Explanation
from ebrl.resources.topology import core_ranges


def plan_table(plan: Plan) -> RenderableType:
    """Stages in the order of the data, then the loops and what the planner has to say."""
    table = Table(header_style="bold")
    table.add_column("stage", style="bold", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("replicas", justify="right")
    table.add_column("cores")
    table.add_column("threads", justify="right")
    table.add_column("gpus")
    table.add_column("memory", justify="right")
    table.add_column("batch", justify="right")
    for stage in plan.stages:
        table.add_row(*_row(stage))
    below = [Text(f"rollout loop: {' -> '.join((*loop, loop[0]))}") for loop in plan.loops]
    if plan.item_stages:
        below.append(Text(f"one task per iteration: {', '.join(plan.item_stages)}"))
    below += [Text(f"note: {note}", style="yellow") for note in plan.notes]
    head = (
        f"{plan.workflow}, schedule {plan.title}, staleness at most {plan.max_staleness}, barriers: {_barriers(plan)}"
    )
    summary = Text(f"{plan.schedule}: {SCHEDULES[plan.schedule].summary}")
    return Group(Text(head), summary, table, *below)


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """What the planner expects of a plan, and why."""
    found = explanation.prediction
    steps = "" if explanation.chunk == 1 else f" ({found.rate * explanation.chunk:,.0f} environment steps/s)"
    yield f"expected: {found.rate:,.0f} chunk-steps/s{steps}, bounded by {found.bottleneck}"
    yield "idle: " + ", ".join(f"{stage} {1 - share:.0%}" for stage, share in found.busy.items())
    yield "alone each would allow: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in found.limits.items())
    yield "more: " + ", ".join(f"{name} {gain:+.0%}" for name, gain in explanation.more.items())
    if not explanation.exact:
        yield "note: so many devices are not searched exhaustively; a better plan may exist"


def _barriers(plan: Plan) -> str:
    found = ["every iteration"] if plan.max_staleness == 0 else []
    if plan.step_barrier:
        found.append("every chunk" if plan.groups == 1 else f"every chunk, for each of {plan.groups} groups")
    return (" and ".join(found) or "none") + ("" if plan.rebinding else "; environments keep their cores")


def _row(stage: StagePlan) -> tuple[str, ...]:
    quota = stage.quota
    return (
        stage.name,
        stage.kind,
        str(stage.replicas),
        core_ranges(quota.cores) + (" bound" if quota.bound else ""),
        str(quota.threads),
        _gpus(quota),
        "-" if quota.memory_mib is None else f"{quota.memory_mib:,} MiB",
        str(stage.batch_size),
    )


def _gpus(quota: Quota) -> str:
    """Devices of equal shares together: ``GPU-0, GPU-1: 40 %``."""
    if not quota.sm_percent:
        return ", ".join(quota.gpus) or "-"
    shares: dict[int, list[str]] = {}
    for uuid, percent in zip(quota.gpus, quota.sm_percent, strict=True):
        shares.setdefault(percent, []).append(uuid)
    return "; ".join(f"{', '.join(uuids)}: {percent} %" for percent, uuids in shares.items())
