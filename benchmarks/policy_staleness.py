"""How stale training data is: the share of chunks by the version difference between training and generation.

    python benchmarks/policy_staleness.py            about 8 minutes on 2 cores; keeps its results
    python benchmarks/policy_staleness.py --quick    under two minutes, tiny sizes; figures are no measurement

Real training runs without evaluation, in which the training stage counts the chunks of its trajectories before it
learns from them. Variants and tasks alternate, each repetition in a new process; start-up and first iterations are
left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from policy_staleness_results import TASKS, VARIANTS, StalenessResults
from report import Report, wide_console
from rich.console import Console
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


FULL = Extent(repetitions=3, measure_s={"lift": 20.0, "reach": 10.0}, skip=3, settings={"num_envs": 8})
QUICK = Extent(
    repetitions=1,
    measure_s=dict.fromkeys(TASKS, 1.0),
    skip=2,
    settings={"num_envs": 2, "num_steps": 32, "minibatch": 32},
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
    report = Report(name="policy_staleness")
    began_s = time.monotonic()
    try:
        found = measure(arguments.task or list(TASKS), extent, console)
    except RepetitionFailed as failure:
        console.print(str(failure), style="red", markup=False)
        return 1
    for results in found:
        results.add_to(report)
    report.show(console)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if arguments.quick:
        console.print("Quick: tiny sizes and one short measurement each; nothing is kept.")
    elif not arguments.task:
        console.print(f"Kept in {report.save()}")
    return 0


def measure(tasks: Sequence[str], extent: Extent, console: Console) -> list[StalenessResults]:
    """All repetitions of all variants of all tasks, one after the other."""
    cases = {f"{task} {variant}": (task, variant) for task in tasks for variant in VARIANTS}

    def once(case: str, repetition: int) -> dict[str, Any]:
        task, variant = cases[case]
        label, schedule, max_staleness = VARIANTS[variant]
        result = in_fresh_process(
            Path(__file__).parent / "policy_staleness_variant.py",
            {
                "task": task,
                "settings": {**extent.settings, "max_staleness": max_staleness},
                "schedule": schedule,
                "seed": repetition,
                "skip": extent.skip,
                "measure_s": extent.measure_s[task],
            },
            timeout_s=TIMEOUT_S,
        )
        console.print(f"Round {repetition + 1}, {TASKS[task]}, {label}: chunks by staleness {result['chunks']}")
        return result

    rounds = interleaved(list(cases), extent.repetitions, once)
    return [
        StalenessResults(
            task=task,
            settings=extent.settings,
            rounds={variant: rounds[case] for case, (of, variant) in cases.items() if of == task},
        )
        for task in tasks
    ]


if __name__ == "__main__":
    raise SystemExit(main())
