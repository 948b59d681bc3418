"""How well `ebrl plan` predicts what a run reaches, on this machine's cores.

    python benchmarks/plan_accuracy.py            about 20 minutes on 2 cores; keeps its results
    python benchmarks/plan_accuracy.py --quick    under two minutes; figures are no measurement

For `reach_ppo`, `lift_ppo` and three emulated simulators that use up CPU time: a profile as `ebrl profile` makes it,
then runs under several plans, most of which the profile never saw together, against the rate that was predicted.
"""

from __future__ import annotations

import argparse
import statistics

from planned_run import every, named, reached
from report import Goal, Report, wide_console
from training_task import ENDLESS, TrainingTask

from ebrl.planner.explain import as_it_is, profiled_problem
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.profiling import profile
from ebrl.workflows.reach_ppo import reach_ppo

MOST_WRONG = 0.10
EMULATED = ("emulated:lift?mode=spin", "emulated:fetch?mode=spin", "emulated:maniskill?mode=spin")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one task, short runs, nothing is kept")
    quick = parser.parse_args().quick
    report, console = Report(name="plan_accuracy"), wide_console()
    graphs = {"reach": TrainingTask.named("reach").graph}
    if not quick:
        graphs["lift"] = TrainingTask.named("lift").graph
        graphs |= {task: TrainingTask.of(reach_ppo(task=task, iterations=ENDLESS)).graph for task in EMULATED}
    pool, rows, errors = ResourcePool.discover(), [], []
    for name, graph in graphs.items():
        found = profile(graph, budget_s=15.0 if quick else 60.0)
        for plan in every(graph, few=True if quick else name != "reach"):
            expected = as_it_is(profiled_problem(graph, plan, pool, found), plan)
            rate = reached(graph, plan, measure_s=3.0 if quick else 12.0).env_steps_per_s / found.chunk
            errors.append(abs(expected.rate / rate - 1))
            rows.append((name, named(plan), f"{expected.rate:.0f}", f"{rate:.0f}", f"{expected.rate / rate - 1:+.0%}"))
            console.print(", ".join((*rows[-1], expected.bottleneck)))
    report.table("chunk-steps per second", ("task", "plan", "predicted", "measured", "error"), rows)
    report.figures = {"rows": rows, "errors": errors}
    report.goals.append(Goal(name="median error", value=statistics.median(errors), goal=MOST_WRONG, at_least=False))
    report.show(console)
    if not quick:
        print(f"results: {report.save()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
