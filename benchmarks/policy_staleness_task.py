"""A training task that counts what it trains on by staleness, and its run under one of EBRL's schedules."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from steady_state import SteadyState
from training_task import TrainingTask

import ebrl
from ebrl.graph.items import Batch, Trajectory, Weights
from ebrl.observe.events import Event
from ebrl.stages import train_ppo

_PREFIX = "chunks_"


def train_and_count(policy: Any, trajectories: Batch[Trajectory], state: Any, **settings: Any) -> Weights:
    """`train_ppo`, which also reports on how many chunks of every staleness it trained."""
    staleness = int(state["version"]) - np.concatenate([trajectory.versions for trajectory in trajectories])
    weights: Weights = train_ppo.function(policy, trajectories, state, **settings)
    values, counts = np.unique(staleness, return_counts=True)
    ebrl.report(**{f"{_PREFIX}{value}": count for value, count in zip(values, counts, strict=True)})
    return weights


def counting(task: TrainingTask) -> TrainingTask:
    """The same task, whose training counts."""
    graph = task.graph
    node = graph.of_kind("training")[0]
    counted = attrs.evolve(node, stage=attrs.evolve(node.stage, function=train_and_count))
    here = str(Path(__file__).parent)  # workers import this module
    return TrainingTask(graph=attrs.evolve(graph, nodes={**graph.nodes, node.name: counted}, folder=here))


def measure(task: TrainingTask, *, schedule: str, seed: int, skip: int, measure_s: float) -> dict[str, Any]:
    """Train; beside the rate, ``chunks``: how many were trained on in the measured iterations, by staleness.

    Raises RuntimeError when the run lost an environment or worker.
    """
    faults: list[Event] = []

    def watch(event: Event) -> None:
        if event.kind in ("environment_lost", "worker_replaced"):
            faults.append(event)

    size = task.num_envs * task.num_steps
    steady = SteadyState(skip=skip, measure_s=measure_s, steps_per_iteration=size, counters=dict)
    graph, stats = counting(task).graph, []
    with (
        tempfile.TemporaryDirectory() as folder,
        ebrl.launch(graph, run_dir=f"{folder}/run", schedule=schedule, seed=seed, observers=[watch]) as run,
    ):
        for iteration in run:
            stats.append(iteration.stats)
            if steady.iteration_done():
                break
    if faults:
        raise RuntimeError(f"the run is no measurement: {faults[0].kind} {faults[0].data}")
    return steady.result() | {"chunks": chunks_by_staleness(stats[skip:])}


def chunks_by_staleness(stats: Sequence[Mapping[str, float]]) -> dict[str, int]:
    """Staleness -> chunks, summed over stats of iterations, where they are called ``<stage>/chunks_<staleness>``."""
    found: dict[str, int] = {}
    for row in stats:
        for name, count in row.items():
            metric = name.rpartition("/")[2]
            if metric.startswith(_PREFIX):
                key = metric.removeprefix(_PREFIX)
                found[key] = found.get(key, 0) + int(count)
    return dict(sorted(found.items(), key=lambda entry: int(entry[0])))
