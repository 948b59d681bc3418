"""Environment steps per second of the rollout alone, simulation and policy: EBRL side by side with vector environments.

    python benchmarks/rollout_throughput.py            about 13 minutes on 2 cores; keeps its results
    python benchmarks/rollout_throughput.py --quick    under two minutes, tiny sizes; figures are no measurement

All sides act with the same network (two tanh networks of 64 and 64; a random Gaussian action with its
log-probability, and a value) on the same float32 vector, in the same number of environments. EBRL runs its real
engine (Dask workers, channel, generation worker, recorded trajectories, checkpoints) with a training that only
estimates values. The peers act in torch on one thread and keep nothing. Simulators are the same adapters for all but
EnvPool, which has its own. The limit is what the simulators do alone on all cores. Everything alternates, tasks too,
each repetition in a new process; start-up and first iterations are left out. Ratios are taken within each round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from report import PACKAGES, Report, versions, wide_console
from rich.console import Console
from rollout_peers import envpool_lacks
from rollout_results import TASKS, VARIANTS, RolloutResults, compiled_goal
from rollout_task import rollout_task
from rounds import RepetitionFailed, in_fresh_process, interleaved

TIMEOUT_S = 180.0


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much is measured."""

    repetitions: int
    measure_s: dict[str, float]
    """By task: least duration of one measurement; whole iterations are counted."""
    skip: int
    """Iterations before it."""
    settings: dict[str, Any]
    """Of the workflow, whose own values hold for the rest."""
    tasks: tuple[str, ...] = tuple(TASKS)
    judged: bool = True
    """Whether goals apply."""


FULL = Extent(
    repetitions=2,
    measure_s={"lift_stock": 18.0, "lift": 10.0, "reach": 10.0, "pendulum": 6.0},
    skip=2,
    settings={"num_envs": 8},
)
QUICK = Extent(
    repetitions=1,
    measure_s=dict.fromkeys(TASKS, 0.5),
    skip=2,
    settings={"num_envs": 2, "num_steps": 16},
    tasks=("lift", "reach", "pendulum"),  # Lift once: its two tasks differ by one option of the simulator
    judged=False,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing is kept")
    parser.add_argument("--task", choices=TASKS, action="append", help="measure this task only")
    parser.add_argument("--repetitions", type=int, help="rounds, default 2")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL
    if arguments.repetitions:
        extent = attrs.evolve(extent, repetitions=arguments.repetitions)

    console = wide_console()
    report = Report(name="rollout_throughput", versions=versions([*PACKAGES, "envpool"]))
    began_s = time.monotonic()
    try:
        found = measure(arguments.task or extent.tasks, extent, console)
    except RepetitionFailed as failure:
        console.print(str(failure), style="red", markup=False)
        return 1
    for results in found.values():
        results.add_to(report)
        if extent.judged:
            report.goals += results.goals()
    if extent.judged and {"lift", "lift_stock"} <= set(found):
        report.goals.append(compiled_goal(found["lift"], found["lift_stock"]))
    report.show(console)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if arguments.quick:
        console.print("Quick: tiny sizes and one short measurement each; goals are judged by the full run only.")
    elif not arguments.task:
        console.print(f"Kept in {report.save()}")
    return 0


def measure(tasks: Sequence[str], extent: Extent, console: Console) -> dict[str, RolloutResults]:
    """All repetitions of all variants of all tasks, one after the other."""
    absent = {task: _absent(task, extent) for task in tasks}
    cases = {f"{task} {name}": (task, name) for task in tasks for name in VARIANTS if name not in absent[task]}

    def once(case: str, repetition: int) -> dict[str, Any]:
        task, variant = cases[case]
        result = in_fresh_process(
            Path(__file__).parent / "rollout_variant.py",
            {
                "task": task,
                "settings": extent.settings,
                "variant": variant,
                "seed": repetition,
                "skip": extent.skip,
                "measure_s": extent.measure_s[task],
            },
            timeout_s=TIMEOUT_S,
        )
        name = f"Round {repetition + 1}, {TASKS[task]}: {VARIANTS[variant]}"
        console.print(f"{name}: {result['env_steps_per_s']:.0f} environment steps/s")
        return result

    rounds = interleaved(list(cases), extent.repetitions, once)
    return {
        task: RolloutResults(
            task=task,
            settings=extent.settings,
            rounds={variant: rounds[case] for case, (of, variant) in cases.items() if of == task},
            absent=absent[task],
        )
        for task in tasks
    }


def _absent(task: str, extent: Extent) -> dict[str, str]:
    reason = envpool_lacks(rollout_task(task, **extent.settings).simulator)
    return {} if reason is None else {"envpool": reason}


if __name__ == "__main__":
    raise SystemExit(main())
