"""Environment steps per second with training included: EBRL side by side with stable-baselines3.

    python benchmarks/train_throughput.py            about 25 minutes on 2 cores; keeps its results
    python benchmarks/train_throughput.py --quick    under two minutes, tiny sizes; figures are no measurement

Both sides train the same task: same simulator adapter, environments, rollout length, network and PPO
settings, all read from the workflows. stable-baselines3 runs PPO on SubprocVecEnv with one and with two
torch threads, and the better one counts. Variants alternate (A B C A B C ...), each repetition in a new
process; start-up and first iterations are left out. Ratios are taken within each round.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import attrs
from report import Report, wide_console
from rich.console import Console
from rounds import RepetitionFailed, in_fresh_process, interleaved
from train_results import TASKS, VARIANTS, TaskResults

TIMEOUT_S = 300.0


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much is measured."""

    repetitions: int
    measure_s: dict[str, float]
    """By task: least duration of one measurement; whole iterations are counted."""
    skip: int
    """Iterations before it."""
    settings: dict[str, Any]
    """Of the workflow; empty for the ones that people train with."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    judged: bool = True
    """Whether goals apply."""


FULL = Extent(
    repetitions=3,
    measure_s={"lift_stock": 25.0, "lift": 15.0, "reach": 8.0},
    skip=3,
    settings={"num_envs": 8, "num_steps": 64},
)
QUICK = Extent(
    repetitions=1,
    measure_s={"lift_stock": 2.0, "lift": 1.0, "reach": 1.0},
    skip=2,
    settings={"num_envs": 2, "num_steps": 32, "minibatch": 32},
    variants=("sb3-1", "ebrl", "sync", "simulators"),
    judged=False,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing is kept")
    parser.add_argument("--task", choices=TASKS, action="append", help="measure this task only")
    parser.add_argument("--repetitions", type=int, help="rounds, default 3")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL
    if arguments.repetitions:
        extent = attrs.evolve(extent, repetitions=arguments.repetitions)

    console = wide_console()
    report = Report(name="train_throughput")
    began_s = time.monotonic()
    try:
        for task in arguments.task or TASKS:
            results = TaskResults(task=task, settings=extent.settings, rounds=measure(task, extent, console))
            results.add_to(report)
            if extent.judged:
                results.add_goals(report)
    except RepetitionFailed as failure:
        console.print(str(failure), style="red", markup=False)
        return 1
    report.show(console)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if arguments.quick:
        console.print("Quick: tiny sizes and one short measurement each; goals are judged by the full run only.")
    elif not arguments.task:
        console.print(f"Kept in {report.save()}")
    return 0


def measure(task: str, extent: Extent, console: Console) -> dict[str, list[dict[str, Any]]]:
    """All repetitions of all variants, one after the other."""

    def once(variant: str, repetition: int) -> dict[str, Any]:
        result = in_fresh_process(
            Path(__file__).parent / "train_variant.py",
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
        name = f"{TASKS[task]}, round {repetition + 1}: {VARIANTS[variant]}"
        console.print(f"{name}: {result['env_steps_per_s']:.0f} environment steps/s")
        return result

    return interleaved(extent.variants, extent.repetitions, once)


if __name__ == "__main__":
    raise SystemExit(main())
