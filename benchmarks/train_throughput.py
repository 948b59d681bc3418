"""Environment steps per second with training included: EBRL side by side with stable-baselines3.

    python benchmarks/train_throughput.py            about 15 minutes on 2 cores; keeps its results
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
from report import Goal, Report, Spread, ratios
from rich.console import Console
from rounds import RepetitionFailed, in_fresh_process, interleaved

VARIANTS = {
    "sb3-1": "stable-baselines3, 1 torch thread",
    "sb3-2": "stable-baselines3, 2 torch threads",
    "ebrl": "EBRL, schedule ebrl",
    "sync": "EBRL, schedule sync",
    "simulators": "simulators alone (limit)",
}
TASKS = {"lift": "robosuite Lift", "reach": "FetchReachDense-v4"}
SHARES = {
    "simulation": "simulation (environment processes)",
    "generation": "generation (its worker's process)",
    "training": "training (its tasks)",
    "engine": "engine (simulation worker's process)",
    "driver": "driver, with Dask's scheduler",
    "rest": "training worker outside its tasks",
    "training process": "stable-baselines3's own process",
    "others": "programs of others",
    "idle": "idle",
}
SPEEDUP_GOAL = 1.08
ENGINE_GOAL_US = 150.0
TIMEOUT_S = 300.0

Results = dict[str, list[dict[str, Any]]]


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


FULL = Extent(repetitions=3, measure_s={"lift": 25.0, "reach": 8.0}, skip=3, settings={"num_envs": 8, "num_steps": 64})
QUICK = Extent(
    repetitions=1,
    measure_s={"lift": 2.0, "reach": 1.0},
    skip=2,
    settings={"num_envs": 2, "num_steps": 32, "minibatch": 32},
    variants=("sb3-1", "ebrl", "sync", "simulators"),
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

    console = Console()
    report = Report(name="train_throughput")
    began_s = time.monotonic()
    try:
        for task in arguments.task or TASKS:
            add_task(report, task, measure(task, extent, console), extent)
    except RepetitionFailed as failure:
        console.print(str(failure), style="red", markup=False, highlight=False)
        return 1
    report.show(console)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.", highlight=False)
    if arguments.quick:
        console.print("Quick: tiny sizes and one short measurement each; goals are judged by the full run only.")
    elif not arguments.task:
        console.print(f"Kept in {report.save()}", highlight=False)
    return 0


def measure(task: str, extent: Extent, console: Console) -> Results:
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
        console.print(f"{name}: {result['env_steps_per_s']:.0f} environment steps/s", highlight=False)
        return result

    return interleaved(extent.variants, extent.repetitions, once)


def add_task(report: Report, task: str, results: Results, extent: Extent) -> None:
    """Figures, tables and goals of one task."""
    rates = {variant: [result["env_steps_per_s"] for result in rounds] for variant, rounds in results.items()}
    baseline = max((name for name in rates if name.startswith("sb3-")), key=lambda name: Spread.of(rates[name]).median)
    speedups = {variant: ratios(values, rates[baseline]) for variant, values in rates.items()}
    sizes = ", ".join(f"{value} {name}" for name, value in extent.settings.items())
    report.table(
        f"{TASKS[task]}: training included ({sizes}; ratio to {VARIANTS[baseline]})",
        ["", "environment steps/s", "ratio"],
        [[VARIANTS[name], Spread.of(rates[name]).text(), speedups[name].text(".2f")] for name in results],
    )
    shares = {name: _shares(rounds) for name, rounds in results.items() if "grown" in rounds[0]}
    columns = (baseline, "ebrl", "sync")
    report.table(
        f"{TASKS[task]}: share of all cores, %",
        ["", "stable-baselines3", "EBRL, ebrl", "EBRL, sync"],
        [
            [text, *(f"{100 * shares[name][key]:.1f}" if key in shares[name] else "" for name in columns)]
            for key, text in SHARES.items()
        ],
    )
    costs = {name: _engine_us(results[name]) for name in ("ebrl", "sync")}
    report.table(
        f"{TASKS[task]}: the engine's own cost",
        ["", "engine, us per environment step", "staleness"],
        [
            [VARIANTS[name], cost.text(), f"{Spread.of([r['staleness_mean'] for r in results[name]]).median:.2f}"]
            for name, cost in costs.items()
        ],
    )
    report.figures[task] = {
        "settings": extent.settings,
        "baseline": baseline,
        "env_steps_per_s": {name: Spread.of(values) for name, values in rates.items()},
        "ratio": speedups,
        "shares": shares,
        "engine_us_per_env_step": costs,
        "repetitions": results,
    }
    if task == "lift" and extent is FULL:
        report.goals += [
            Goal(name="Lift, EBRL over stable-baselines3", value=speedups["ebrl"].median, goal=SPEEDUP_GOAL),
            Goal(
                name="Lift, engine us per environment step",
                value=costs["ebrl"].median,
                goal=ENGINE_GOAL_US,
                at_least=False,
            ),
        ]


def _shares(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Median share of all cores by what they were spent on; the keys are those of `SHARES`."""
    shares = [_share(result["grown"], result["wall_s"] * result["cores"]) for result in rounds]
    return {key: Spread.of([share[key] for share in shares]).median for key in shares[0]}


def _share(grown: dict[str, float], available_s: float) -> dict[str, float]:
    ours = {key: grown[key] / available_s for key in SHARES if key in grown}
    total = sum(ours.values())
    others = max(0.0, grown["machine"] / available_s - total)
    return ours | {"others": others, "idle": max(0.0, 1.0 - total - others)}


def _engine_us(rounds: list[dict[str, Any]]) -> Spread:
    """CPU of the simulation worker's own process per environment step."""
    return Spread.of([1e6 * result["grown"]["engine"] / result["grown"]["rolled_out"] for result in rounds])


if __name__ == "__main__":
    raise SystemExit(main())
