"""How long an environment takes for a chunk of 8 actions: lock-step, free-running, and under the dispatcher.

    python benchmarks/chunk_latency.py            about 10 minutes on 2 cores; keeps its results
    python benchmarks/chunk_latency.py --quick    under two minutes, tiny sizes; figures are no measurement

The latency of a chunk counts from the moment its actions are there until its last step is done. The policy answers
at once, so all environments are in flight all the time, under every variant equally many: (a) all step together and
wait for the slowest after every step, as in a vector environment; (b) every environment runs its whole chunk and the
operating system schedules; (c) the dispatcher runs one environment per core, a step at a time, and (d) binds it.
Steps cost what a profile says while they spin (mean 40 ms and P99 60 ms as in the paper, at a tenth of the time), and
what robosuite costs. Variants alternate, each repetition in a new process. Ratios are taken within each round.

With all environments in flight, mean latency times throughput is their number, whatever the schedule (Little's law):
a mean gains exactly what the throughput gains, and only tails can gain more. With n environments per core it is n times
8 steps of core time at best; how far from that lock-step is says what a mean can gain.

Every environment stays in one window that is longer than the measurement. At the end of a batch the dispatcher lets
older work go first, which keeps data fresh at the price of longer tails; that is not measured here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from report import Goal, Report, Spread, ratios, wide_console
from rich.console import Console
from rounds import RepetitionFailed, in_fresh_process, interleaved

from ebrl.resources.pool import ResourcePool

TIMEOUT_S = 300.0
CHUNK = 8
VARIANTS = {"lock-step": "a: lock-step", "free": "b: free-running", "dispatched": "c: dispatcher", "bound": "d: bound"}
TASKS = {
    "paper": "emulated:constant?mode=spin&step_s=0.004&step_p99_s=0.006&reset_s=0.004&horizon=400",
    "lift": "robosuite:Lift?fast_control=false",
}
LABELS = {"paper": "Steps of 4 ms, P99 6 ms (emulated)", "lift": "robosuite Lift, stock controllers"}
FIGURES = ("mean", "P50", "P99")
PAPER = {"mean": 1.61, "P50": 1.61, "P99": 1.53}
PAPER_SPREAD = 0.063
"""P99 over P50, minus 1."""
JUDGED = ("lift", 4)
"""Task and environments per core that the goals are about."""


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much is measured."""

    per_core: tuple[int, ...]
    repetitions: int
    warm_up_s: float
    measure_s: float


FULL = Extent(per_core=(2, 4, 8), repetitions=3, warm_up_s=1.5, measure_s=4.0)
QUICK = Extent(per_core=(2,), repetitions=1, warm_up_s=0.5, measure_s=2.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing is kept")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL

    console, report, began_s = wide_console(), Report(name="chunk_latency"), time.monotonic()
    cores = ResourcePool.discover().cores
    report.figures["settings"] = {"chunk": CHUNK, "cores": cores, **attrs.asdict(extent)}
    try:
        for task in TASKS:
            measured = {per_core: measure(task, per_core, cores, extent, console) for per_core in extent.per_core}
            add_to(report, task, measured)
    except RepetitionFailed as failure:
        console.print(str(failure), style="red", markup=False)
        return 1
    if not arguments.quick:
        judge(report)
    report.show(console)
    for task in TASKS:
        for per_core in extent.per_core:
            console.print(explanation(report.figures[task], task, per_core))
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if arguments.quick:
        console.print("Quick: tiny sizes and one short measurement each; it judges nothing.")
    else:
        console.print(f"Kept in {report.save()}")
    return 0


def measure(
    task: str, per_core: int, cores: Sequence[int], extent: Extent, console: Console
) -> dict[str, list[dict[str, Any]]]:
    """All repetitions of all variants, one after the other."""

    def once(variant: str, repetition: int) -> dict[str, Any]:
        result = in_fresh_process(
            Path(__file__).parent / "chunk_latency_variant.py",
            {
                "simulator": TASKS[task],
                "variant": variant,
                "num_envs": per_core * len(cores),
                "cores": cores,
                "chunk": CHUNK,
                "seed": repetition,
                "warm_up_s": extent.warm_up_s,
                "measure_s": extent.measure_s,
            },
            timeout_s=TIMEOUT_S,
        )
        took = result["chunk_ms"]
        name = f"{LABELS[task]}, {per_core} per core, round {repetition + 1}, {VARIANTS[variant]}"
        console.print(f"{name}: mean {took['mean']:.0f}, P50 {took['P50']:.0f}, P99 {took['P99']:.0f} ms")
        return result

    return interleaved(list(VARIANTS), extent.repetitions, once)


def add_to(report: Report, task: str, measured: dict[int, dict[str, list[dict[str, Any]]]]) -> None:
    """Figures and tables of one task."""
    rows, gains, figures = [], [], {}
    for per_core, rounds in measured.items():
        took = {
            variant: {figure: [result["chunk_ms"][figure] for result in results] for figure in FIGURES}
            for variant, results in rounds.items()
        }
        gain = {
            f"{other}/{ours}": {figure: ratios(took[other][figure], took[ours][figure]) for figure in FIGURES}
            for ours in ("dispatched", "bound")
            for other in ("lock-step", "free")
        }
        tails = {variant: ratios(found["P99"], found["P50"]) for variant, found in took.items()}
        others = {
            name: {variant: Spread.of([result[name] for result in results]) for variant, results in rounds.items()}
            for name in ("env_steps_per_s", "busy", "core_ms_per_step")
        }
        figures[f"{per_core} per core"] = {
            "chunk_ms": {variant: {f: Spread.of(v) for f, v in found.items()} for variant, found in took.items()},
            "P99/P50": tails,
            "gain": gain,
            **others,
        }
        rows += [
            [
                f"{per_core}, {VARIANTS[variant]}",
                *(Spread.of(took[variant][figure]).text(".0f") for figure in FIGURES),
                tails[variant].text(".2f"),
                others["env_steps_per_s"][variant].text(".0f"),
                f"{100 * others['busy'][variant].median:.0f}",
            ]
            for variant in VARIANTS
        ]
        gains += [[f"{per_core}, {pair}", *(found[f].text(".2f") for f in FIGURES)] for pair, found in gain.items()]
    report.figures[task] = {"simulator": TASKS[task], **figures}
    heads = [f"{figure}, ms" for figure in FIGURES]
    report.table(f"{LABELS[task]}: chunk latency", ["per core", *heads, "P99/P50", "steps/s", "busy, %"], rows)
    report.table(f"{LABELS[task]}: how many times shorter", ["per core", *FIGURES], gains)


def explanation(figures: dict[str, Any], task: str, per_core: int) -> str:
    """One sentence: what a chunk is at best, and what lock-step leaves to be gained."""
    found = figures[f"{per_core} per core"]
    ideal_ms = per_core * CHUNK * found["core_ms_per_step"]["bound"].median
    share = found["busy"]["lock-step"].median
    return (
        f"{LABELS[task]}, {per_core} per core: shared evenly a chunk is {ideal_ms:.0f} ms of core time; in lock-step "
        f"the environments use {100 * share:.0f} % of the cores, so no schedule makes the mean more than "
        f"{1 / share:.2f} times shorter at the same cost per step."
    )


def judge(report: Report) -> None:
    """The paper's figures as goals."""
    task, per_core = JUDGED
    found = report.figures[task][f"{per_core} per core"]
    for figure, goal in PAPER.items():
        value = found["gain"]["lock-step/bound"][figure].median
        report.goals.append(Goal(name=f"Lift, {per_core} per core, {figure} against lock-step", value=value, goal=goal))
    report.goals.append(
        Goal(
            name=f"Lift, {per_core} per core, P99 over P50 less 1",
            value=found["P99/P50"]["bound"].median - 1,
            goal=PAPER_SPREAD,
            at_least=False,
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
