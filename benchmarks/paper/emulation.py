"""The schedules on an emulated machine: the real runtime in wall-clock time, beside what a rehearsal predicts.

    python benchmarks/paper/emulation.py            about 25 minutes on 2 cores; keeps its results
    python benchmarks/paper/emulation.py --quick    under two minutes: three schedules, a smaller machine; not kept

RoboCasa with pi0 under GRPO, one horizon per iteration, on 8 H100 with 56 cores that simulate. Drivers, Dask, channels,
dispatcher, batchers and one process per environment are those of every run; stages sleep as long as the calibrated
profile says. The rehearsal has the same allocation, costs and resolution (control steps). Every schedule has its best
allocation, as `ebrl.rehearse.best` finds it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from problems import Case, case

sys.path.append(str(Path(__file__).parents[1]))
from report import Goal, Report, wide_console
from steady_state import descendants_cpu_s, own_cpu_s

import ebrl
from ebrl.backends.accelerators.emulated import emulated
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.first_plan import first_plan
from ebrl.planner.plans import changed
from ebrl.planner.problem import SIMULATION, Allocation, Device, Node
from ebrl.rehearse.best import best
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.resources.machine_spec import machine
from ebrl.resources.pool import ResourcePool
from ebrl.workflows import emulated as workflow

MOST_WRONG = 0.10
SEEDS, REHEARSED, STARTING = 3, 24, 4


@attrs.define(frozen=True, kw_only=True)
class Size:
    """How much is emulated."""

    gpus: int
    window: int
    """Chunk-steps of a window."""
    skip: int
    """Iterations before the measurement: environments begin all at once, and the pipeline is empty."""
    measured: int
    schedules: Sequence[str] = tuple(SCHEDULES)


FULL = Size(gpus=8, window=30, skip=2, measured=3)
QUICK = Size(gpus=2, window=2, skip=1, measured=2, schedules=("ebrl", "async", "colocated"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small machine and short runs, nothing is kept")
    quick = parser.parse_args().quick
    size, console, report = QUICK if quick else FULL, wide_console(), Report(name="emulation")
    asked, pool = emulated_case(size)
    rows = []
    for name in size.schedules:
        rows.append(row := compared(name, asked, pool, size))
        console.print(f"{name}: {row['emulated']:.1f} emulated, {row['rehearsed']:.1f} rehearsed")
    report.table(
        f"chunk-steps per second on {size.gpus} emulated H100 and {asked.problem.environments} environments",
        ("schedule", "emulated", "rehearsed", "ratio", "CPU of this machine"),
        [
            (
                row["schedule"],
                f"{row['emulated']:.1f}",
                f"{row['rehearsed']:.1f}",
                f"{row['ratio']:.3f}",
                f"{row['cpu']:.0%}",
            )
            for row in rows
        ],
    )
    report.figures = {"size": size, "rows": rows}
    error = max(abs(row["ratio"] - 1) for row in rows)
    report.goals.append(Goal(name="largest error", value=error, goal=MOST_WRONG, at_least=False))
    report.show(console)
    if not quick:
        print(f"results: {report.save()}")
    return 0


def emulated_case(size: Size) -> tuple[Case, ResourcePool]:
    """The paper's configuration, on devices and cores of an emulated machine."""
    asked = case("robocasa_openpi", "grpo", gpus=size.gpus, horizons=1)
    cores = len(asked.problem.cores)
    pool = emulated(machine(f"{size.gpus}xH100,{cores}c"))
    devices = tuple(
        Device(uuid=gpu.uuid, model=str(gpu.name), memory_mib=float(gpu.memory_mib or 0)) for gpu in pool.gpus
    )
    simulating = len(asked.problem.core_quotas[SIMULATION])
    problem = attrs.evolve(
        asked.problem,
        nodes=(Node(cores=pool.cores, devices=devices),),
        iteration=asked.problem.environments * size.window,
        window=size.window,
        core_quotas={SIMULATION: frozenset(("", core) for core in pool.cores[:simulating])},
    )
    return attrs.evolve(asked, problem=asked.truth.told(problem)), pool


def compared(name: str, asked: Case, pool: ResourcePool, size: Size) -> dict[str, Any]:
    """What a schedule reaches, emulated and rehearsed, with its best allocation."""
    allocation = best(asked.problem, asked.truth, SCHEDULES[name])
    rehearsed = rehearsed_rate(name, asked, allocation)
    emulated_rate, cpu = emulated_run(name, asked, allocation, pool, size)
    return {
        "schedule": name,
        "allocation": attrs.evolve(allocation, cores={}),
        "emulated": emulated_rate,
        "rehearsed": rehearsed,
        "ratio": emulated_rate / rehearsed,
        "cpu": cpu,
    }


def rehearsed_rate(name: str, asked: Case, allocation: Allocation) -> float:
    """Chunk-steps per second in virtual time, the mean over several seeds."""
    found = []
    for seed in range(SEEDS):
        rehearsal = Rehearsal(
            asked.problem, allocation, asked.truth, schedule=SCHEDULES[name], steps=asked.profile.chunk, seed=seed
        )
        found.append(throughput(rehearsal.run(REHEARSED)[STARTING:]))
    return sum(found) / len(found)


def emulated_run(name: str, asked: Case, allocation: Allocation, pool: ResourcePool, size: Size) -> tuple[float, float]:
    """(chunk-steps per second in wall-clock time, share of a core of this machine that it takes)."""
    graph, plan = plan_of(name, asked, allocation, pool)
    with (
        tempfile.TemporaryDirectory() as folder,
        ebrl.launch(graph, run_dir=f"{folder}/run", plan=plan, replan=False, resources=pool) as run,
    ):
        for number, _ in enumerate(run, start=1):
            if number == size.skip:
                began_s, before_s = time.monotonic(), own_cpu_s() + descendants_cpu_s()
            elif number == size.skip + size.measured:
                wall_s = time.monotonic() - began_s
                cpu_s = own_cpu_s() + descendants_cpu_s() - before_s
                return size.measured * asked.problem.iteration / wall_s, cpu_s / wall_s
    raise RuntimeError("the run ended before the measurement was complete")


def plan_of(name: str, asked: Case, allocation: Allocation, pool: ResourcePool) -> tuple[Graph, Plan]:
    """(workflow, how it runs with `allocation`)."""
    problem = asked.problem
    graph = workflow.emulated(
        profile=workflow.PROFILE, num_envs=problem.environments, num_steps=problem.window, iterations=1000
    )
    quotas = attrs.evolve(allocation, cores=problem.core_quotas)
    return graph, changed(first_plan(graph, pool, name), quotas, graph, pool, problem)


if __name__ == "__main__":
    raise SystemExit(main())
