"""A plan as a table for people: stages with their quotas, rollout loops, notes."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebrl.graph.plan import Plan, StagePlan
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
    barriers = "every iteration and every chunk" if plan.step_barrier else "none"
    head = f"{plan.workflow}, schedule {plan.schedule}, staleness at most {plan.max_staleness}, barriers: {barriers}"
    return Group(Text(head), table, *below)


def _row(stage: StagePlan) -> tuple[str, ...]:
    quota = stage.quota
    return (
        stage.name,
        stage.kind,
        str(stage.replicas),
        core_ranges(quota.cores) + (" bound" if quota.bound else ""),
        str(quota.threads),
        ", ".join(quota.gpus) or "-",
        "-" if quota.memory_mib is None else f"{quota.memory_mib:,} MiB",
        str(stage.batch_size),
    )
