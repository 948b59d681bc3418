"""How well `ebrl plan` predicts what a run reaches, on this machine's cores.

    python benchmarks/plan_accuracy.py            about 20 minutes on 2 cores; keeps its results
    python benchmarks/plan_accuracy.py --quick    under two minutes; figures are no measurement

For `reach_ppo`, `lift_ppo` and three emulated simulators that use up CPU time: a profile as `ebrl profile` makes it,
then a run with all cores for the simulation and one with a single core, against the rates that were predicted.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from planned_run import every, named, reached
from report import Goal, Report, wide_console
from training_task import ENDLESS, TrainingTask

from ebrl.graph.model import Graph
from ebrl.planner.explain import as_it_is, profiled_problem
from ebrl.planner.predict import Prediction
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.profiling import profile
from ebrl.workflows.reach_ppo import reach_ppo

MOST_WRONG, ROUNDS = 0.10, 3
EMULATED = ("emulated:lift?mode=spin", "emulated:fetch?mode=spin", "emulated:maniskill?mode=spin")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one task, one short round, nothing is kept")
    quick = parser.parse_args().quick
    report = Report(name="plan_accuracy")
    graphs = {"reach": TrainingTask.named("reach").graph}
    if not quick:
        graphs["lift"] = TrainingTask.named("lift").graph
        graphs |= {task: TrainingTask.of(reach_ppo(task=task, iterations=ENDLESS)).graph for task in EMULATED}
    rows = [row for name, graph in graphs.items() for row in _compared(name, graph, quick)]
    report.table(
        "chunk-steps per second, medians",
        ("task", "simulation on", "predicted", "measured", "error"),
        [
            (row["task"], row["cores"], f"{row['predicted']:.0f}", f"{row['measured']:.0f}", f"{row['error']:+.0%}")
            for row in rows
        ],
    )
    report.figures = {"rows": rows}
    error = statistics.median(abs(row["error"]) for row in rows)
    report.goals.append(Goal(name="median error", value=error, goal=MOST_WRONG, at_least=False))
    report.show(wide_console())
    if not quick:
        print(f"results: {report.save()}")
    return 0


def _compared(name: str, graph: Graph, quick: bool) -> list[dict[str, Any]]:
    """A row per plan. Each round has a profile of its own: what the machine can do changes with its neighbours."""
    pool, console, plans = ResourcePool.discover(), wide_console(), list(every(graph, few=True))
    found: list[list[tuple[Prediction, float]]] = [[] for _ in plans]
    for _ in range(1 if quick else ROUNDS):
        costs = profile(graph, budget_s=15.0 if quick else 40.0)
        for plan, pairs in zip(plans, found, strict=True):
            expected = as_it_is(profiled_problem(graph, plan, pool, costs), plan)
            rate = reached(graph, plan, measure_s=3.0 if quick else 10.0).env_steps_per_s / costs.chunk
            pairs.append((expected, rate))
            console.print(f"{name}, {named(plan)}: {expected.rate:.0f} predicted, {rate:.0f} measured")
    rows = []
    for plan, pairs in zip(plans, found, strict=True):
        predicted = statistics.median(expected.rate for expected, _ in pairs)
        measured = statistics.median(rate for _, rate in pairs)
        rows.append(
            {
                "task": name,
                "plan": named(plan),
                "cores": str(len(plan.of_kind("simulation").quota.cores)),
                "bottleneck": pairs[-1][0].bottleneck,
                "predicted": predicted,
                "measured": measured,
                "error": predicted / measured - 1,
                "rounds": [(expected.rate, rate) for expected, rate in pairs],
            }
        )
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
