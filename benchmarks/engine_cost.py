"""What the engine costs per environment step and per chunk, and whether that grows with the environments.

    python benchmarks/engine_cost.py            about 10 minutes on 2 cores and 8 GiB; keeps its results
    python benchmarks/engine_cost.py --quick    under two minutes, up to 64 environments; figures are no measurement

CPU time of the thread that drives a rollout of real environment processes whose steps cost next to nothing, with
trajectories recorded and a policy in the same thread that answers at once with random actions (about 5 microseconds
per chunk of it). Chunks of 8 steps; the quantum is the number of steps that an environment does before it answers:
one, a whole chunk, or what the engine chooses by their latency.
Sizes and quanta alternate, each repetition in a new process.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import attrs
from report import Goal, Report, Spread, ratios, wide_console
from rich.console import Console
from rounds import RepetitionFailed, in_fresh_process, interleaved

from ebrl.resources.pool import ResourcePool

TIMEOUT_S = 300.0
CHUNK = 8
QUANTA = {"one": 1, "coarse": CHUNK, "chosen": None}
GOALS_US = {"one": 120.0, "coarse": 40.0}
GROWTH = 1.3


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much is measured."""

    sizes: tuple[int, ...]
    """Environments."""
    repetitions: int
    env_steps: int
    """Of all environments together, in one measurement; at least 8 chunks of each."""


FULL = Extent(sizes=(8, 64, 256, 1024), repetitions=3, env_steps=32_768)
QUICK = Extent(sizes=(8, 64), repetitions=1, env_steps=4_096)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few environments, nothing is kept")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL

    console, report, began_s = wide_console(), Report(name="engine_cost"), time.monotonic()
    report.figures["settings"] = {"chunk": CHUNK, "quanta": QUANTA, **attrs.asdict(extent)}
    try:
        rounds = measure(extent, console)
    except RepetitionFailed as failure:
        console.print(str(failure), style="red", markup=False)
        return 1
    add_to(report, extent, rounds, judged=not arguments.quick)
    report.show(console)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if arguments.quick:
        console.print("Quick: few environments and one short measurement each; goals are judged by the full run only.")
    else:
        console.print(f"Kept in {report.save()}")
    return 0


def measure(extent: Extent, console: Console) -> dict[str, list[dict[str, Any]]]:
    """All repetitions by ``<quantum> <size>``."""
    cores = ResourcePool.discover().cores

    def once(variant: str, repetition: int) -> dict[str, Any]:
        quantum, size = variant.split()
        env_steps = max(extent.env_steps, 8 * CHUNK * int(size))
        order = {
            "num_envs": int(size),
            "cores": cores,
            "chunk": CHUNK,
            "quantum": QUANTA[quantum],
            "skip_steps": 2 * CHUNK * int(size),
            "env_steps": env_steps,
        }
        result = in_fresh_process(Path(__file__).parent / "engine_cost_variant.py", order, timeout_s=TIMEOUT_S)
        console.print(
            f"round {repetition + 1}, quantum {quantum}, {size} environments: {result['us_per_step']:.0f} us per step"
        )
        return result

    variants = [f"{quantum} {size}" for size in extent.sizes for quantum in QUANTA]
    return interleaved(variants, extent.repetitions, once)


def add_to(report: Report, extent: Extent, rounds: dict[str, list[dict[str, Any]]], *, judged: bool) -> None:
    """Figures, goals and the table."""
    costs = {name: [result["us_per_step"] for result in results] for name, results in rounds.items()}
    chunks = {name: [result["us_per_chunk"] for result in results] for name, results in rounds.items()}
    least, most = extent.sizes[0], extent.sizes[-1]
    report.figures["us_per_step"] = {name: Spread.of(values) for name, values in costs.items()}
    report.figures["us_per_chunk"] = {name: Spread.of(values) for name, values in chunks.items()}
    report.table(
        "CPU microseconds of the engine",
        ["quantum, environments", "per step", "per chunk"],
        [
            [f"{quantum}, {size}", *(Spread.of(values[f"{quantum} {size}"]).text(".1f") for values in (costs, chunks))]
            for quantum in QUANTA
            for size in extent.sizes
        ],
    )
    for quantum in QUANTA:
        growth = ratios(costs[f"{quantum} {most}"], costs[f"{quantum} {least}"])
        report.figures[f"growth, quantum {quantum}"] = growth
        if judged and (goal_us := GOALS_US.get(quantum)) is not None:
            dearest = max(Spread.of(costs[f"{quantum} {size}"]).median for size in extent.sizes)
            report.goals += [
                Goal(name=f"us per step, quantum {quantum}", value=dearest, goal=goal_us, at_least=False),
                Goal(name=f"{most} over {least}, quantum {quantum}", value=growth.median, goal=GROWTH, at_least=False),
            ]


if __name__ == "__main__":
    raise SystemExit(main())
