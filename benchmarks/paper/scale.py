"""What a run on 64 nodes asks of the driver, of Dask and of the network, by rehearsal.

    python benchmarks/paper/scale.py            about 10 minutes on 2 cores; keeps its results
    python benchmarks/paper/scale.py --quick    a minute: up to 4 nodes, not kept

LIBERO with GR00T and 256 environments on every node of 8 H100 and 56 cores that simulate, one horizon per iteration.
One simulation worker per node, one generation worker per device, one training. The rates are rehearsed, where all nodes
count as one; the traffic follows from what a run sends:

- Dask tasks: per iteration one of each simulation worker, one of each generation worker, and the training.
- Driver events: each task is submitted, told to begin and told to end; and the iteration itself.
- Messages on a node: a question to a generation worker and its answer, of five bytes and four per environment.
- Trajectories: two images of 256 x 256 pixels, the state and the chunk, per chunk-step, from each node to the training.
- Weights: all of them to every node, once an iteration.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from policies import GR00T
from problems import case

sys.path.append(str(Path(__file__).parents[1]))
from report import Goal, Report, wide_console

from ebrl.planner.allocate import allocate
from ebrl.planner.problem import SIMULATION
from ebrl.rehearse.rehearsal import Rehearsal, throughput

GPUS, ENVIRONMENTS = 8, 256
"""Of a node."""
NODES = (1, 4, 16, 64)
TASKS_PER_S = 36.0
"""Dask took 28 ms for a task's round trip on a loaded machine of 2 cores: the most of many measurements."""
EVENTS_PER_S = 200.0
"""The driver turns one into an iteration's record in less than 5 ms."""
LINK_MB_S = 25_000.0
"""200 Gbit/s, one of the links of such a node."""
_IMAGES, _STATE, _ACTION = 2 * 256 * 256 * 3, 4 * 9, 4 * 7


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 4 nodes, nothing is kept")
    quick = parser.parse_args().quick
    report, console = Report(name="scale"), wide_console()
    rows = []
    for nodes in NODES[:2] if quick else NODES:
        rows.append(row := scaled(nodes))
        console.print(f"{nodes} nodes: {row['rate']:.0f} chunk-steps/s, rehearsed in {row['took_s']:.0f} s")
    columns = {
        "nodes": "nodes", "environments": "envs", "rate": "chunks/s", "iteration_s": "s/iter", "tasks": "tasks/s",
        "events": "events/s", "messages": "msg/s", "out_mb": "out", "in_mb": "in", "training_mb": "training",
    }  # fmt: skip
    title = (
        "LIBERO with GR00T; messages of each node, MB/s out of each (trajectories), into each (weights), to training"
    )
    report.table(title, list(columns.values()), [[_text(row[key]) for key in columns] for row in rows])
    report.figures = {"rows": rows, "limits": {"tasks": TASKS_PER_S, "events": EVENTS_PER_S, "link_mb": LINK_MB_S}}
    last = rows[-1]
    report.goals += [
        Goal(name="Dask tasks per second", value=last["tasks"], goal=TASKS_PER_S, at_least=False),
        Goal(name="driver events per second", value=last["events"], goal=EVENTS_PER_S, at_least=False),
        Goal(name="MB/s of a node, out and in", value=last["out_mb"] + last["in_mb"], goal=LINK_MB_S, at_least=False),
        Goal(name="MB/s into the training", value=last["training_mb"], goal=LINK_MB_S, at_least=False),
    ]
    report.show(console)
    if not quick:
        print(f"results: {report.save()}")
    return 0


def scaled(nodes: int) -> dict[str, Any]:
    """The row of so many nodes."""
    began_s = time.monotonic()
    environments = ENVIRONMENTS * nodes
    found = case("libero_gr00t", "grpo", gpus=GPUS * nodes, horizons=1, environments=environments)
    problem = found.problem
    allocation = allocate(problem).allocation
    rehearsal = Rehearsal(problem, allocation, found.truth)
    rehearsal.run(1)
    calls = 0

    def count(replica: str, batch: int, call_began_s: float) -> None:
        nonlocal calls
        calls += 1

    rehearsal.generation.on_call, since_s = count, rehearsal.now_s
    rate = throughput(rehearsal.run(2))
    passed_s = rehearsal.now_s - since_s
    tasks = nodes + len(allocation.generation) + 1
    iteration_s = problem.iteration / rate
    chunk_mb = (_IMAGES + _STATE + found.profile.chunk * _ACTION) / 1e6
    return {
        "nodes": nodes,
        "gpus": GPUS * nodes,
        "environments": environments,
        "cores": len(problem.core_quotas[SIMULATION]),
        "rate": rate,
        "iteration_s": iteration_s,
        "tasks": tasks / iteration_s,
        "events": (3 * tasks + 1) / iteration_s,
        "messages": 2 * calls / passed_s / nodes,
        "out_mb": rate / nodes * chunk_mb,
        "in_mb": GR00T.weights.value * 1074 / iteration_s,
        "training_mb": rate * chunk_mb,
        "took_s": time.monotonic() - began_s,
    }


def _text(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
