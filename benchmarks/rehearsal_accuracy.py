"""How well a rehearsal predicts what a run reaches under each schedule, on this machine's cores.

    python benchmarks/rehearsal_accuracy.py            about 25 minutes on 2 cores; keeps its results
    python benchmarks/rehearsal_accuracy.py --quick    under two minutes; figures are no measurement

For `reach_ppo`, `lift_ppo` and three emulated simulators that use up CPU time, in every round: a profile as
`ebrl profile` makes it, then a run under each of the schedules, against a rehearsal of the same plan on the costs of
that profile. Errors are those within a round: what this machine can do changes from minute to minute.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import attrs
from planned_run import reached
from report import Goal, Report, Spread, ratios, wide_console
from training_task import ENDLESS, TrainingTask

from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.first_plan import first_plan
from ebrl.planner.plans import allocation_of, problem_of
from ebrl.planner.profile import Profile
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.rehearse.truth import TrueCosts
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.profiling import profile
from ebrl.workflows.reach_ppo import reach_ppo

MOST_WRONG = 0.10
COMPARED = ("ebrl", "async", "sync")
EMULATED = ("emulated:lift?mode=spin", "emulated:fetch?mode=spin", "emulated:maniskill?mode=spin")
STARTING, STEPS = 8, 40
"""Training steps of a rehearsal that are left out, and those that count."""


@attrs.define(frozen=True, kw_only=True)
class Size:
    """How much is measured."""

    rounds: int = 3
    budget_s: float = 10.0
    """Of a profile, for its points."""
    measure_s: float = 7.0
    """Of a run."""


@attrs.define(frozen=True)
class Pair:
    """Chunk-steps per second of one plan in one round."""

    predicted: float
    measured: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one task, one short round, nothing is kept")
    quick = parser.parse_args().quick
    report = Report(name="rehearsal_accuracy")
    size = Size(rounds=1, budget_s=9.0, measure_s=3.0) if quick else Size()
    found = _measured(_graphs(quick), size)
    rows = [_row(*names, pairs) for names, pairs in found.items()]
    report.table(
        "chunk-steps per second, medians with extremes",
        ("task", "schedule", "predicted", "measured", "error"),
        [
            (row["task"], row["schedule"], row["predicted"].text(), row["measured"].text(), row["error"].text("+.0%"))
            for row in rows
        ],
    )
    report.figures = {"rows": rows}
    report.goals.append(
        Goal(name="largest error", value=_largest(rows), goal=MOST_WRONG, at_least=False),
    )
    report.show(wide_console())
    if not quick:
        print(f"results: {report.save()}")
    return 0


def _graphs(quick: bool) -> dict[str, Graph]:
    graphs = {"reach": TrainingTask.named("reach").graph}
    if not quick:
        graphs["lift"] = TrainingTask.named("lift").graph
        for task in EMULATED:
            graphs[task] = TrainingTask.of(reach_ppo(task=task, num_steps=32, iterations=ENDLESS)).graph
    return graphs


def _measured(graphs: dict[str, Graph], size: Size) -> dict[tuple[str, str], list[Pair]]:
    """By task and schedule, a pair for each round."""
    pool, console = ResourcePool.discover(), wide_console()
    found: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for number in range(size.rounds):
        for task, graph in graphs.items():
            costs = profile(graph, budget_s=size.budget_s)
            for schedule in COMPARED:
                plan = first_plan(graph, pool, schedule)
                rate = reached(graph, plan, measure_s=size.measure_s).env_steps_per_s / costs.chunk
                pair = Pair(rehearsed(graph, plan, pool, costs), rate)
                found[task, schedule].append(pair)
                console.print(
                    f"round {number + 1}, {task}, {schedule}: {pair.predicted:.0f} predicted, "
                    f"{pair.measured:.0f} measured"
                )
    return dict(found)


def rehearsed(graph: Graph, plan: Plan, pool: ResourcePool, costs: Profile) -> float:
    """Chunk-steps per second of `plan` in virtual time, on what `costs` found."""
    truth = TrueCosts.of_profile(costs)
    problem = problem_of(
        graph,
        plan,
        pool,
        simulation=truth.simulation,
        generation=truth.generation,
        training=truth.training,
        iteration=costs.iteration,
        others_core_s=costs.others_core_s,
    )
    schedule = SCHEDULES[plan.schedule].without(*plan.without)
    rehearsal = Rehearsal(problem, allocation_of(plan, problem), truth, schedule=schedule, steps=costs.chunk)
    rehearsal.run(STARTING)
    return throughput(rehearsal.run(STEPS))


def _row(task: str, schedule: str, pairs: list[Pair]) -> dict[str, Any]:
    predicted, measured = [pair.predicted for pair in pairs], [pair.measured for pair in pairs]
    error = ratios(predicted, measured)
    return {
        "task": task,
        "schedule": schedule,
        "predicted": Spread.of(predicted),
        "measured": Spread.of(measured),
        "error": Spread(error.median - 1, error.least - 1, error.most - 1, error.repetitions),
        "rounds": pairs,
    }


def _largest(rows: list[dict[str, Any]]) -> float:
    return max(abs(row["error"].median) for row in rows)


if __name__ == "__main__":
    raise SystemExit(main())
