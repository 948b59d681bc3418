"""The task trained by EBRL under one of its schedules."""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from steady_state import SteadyState, descendants_cpu_s, own_cpu_s
from training_task import TrainingTask

import ebrl
from ebrl.observe.events import Event


def measure(task: TrainingTask, *, schedule: str, seed: int, skip: int, measure_s: float) -> dict[str, Any]:
    """Train, checkpoints and run directory included. Raises RuntimeError when the run lost an environment or worker."""
    faults: list[Event] = []

    def watch(event: Event) -> None:
        if event.kind in ("environment_lost", "worker_replaced"):
            faults.append(event)

    with (
        tempfile.TemporaryDirectory() as folder,
        ebrl.launch(task.graph, run_dir=f"{folder}/run", schedule=schedule, seed=seed, observers=[watch]) as run,
    ):
        steady = SteadyState(
            skip=skip,
            measure_s=measure_s,
            steps_per_iteration=task.num_envs * task.num_steps,
            counters=lambda: _counters(run),
        )
        staleness = []
        for iteration in run:
            staleness.append(iteration.stats["staleness_mean"])
            if steady.iteration_done():
                break
    if faults:
        raise RuntimeError(f"the run is no measurement: {faults[0].kind} {faults[0].data}")
    return steady.result() | {"staleness_mean": statistics.fmean(staleness[skip:])}


def _counters(run: Any) -> dict[str, float]:
    """CPU seconds by what they were spent on, and the steps that the simulation has handed over.

    Everything that is in no other row belongs to "rest": above all what Dask does in the training worker.
    """
    # The sums of `run.summary`, which begin with the start-up, read at the ends of the measurement.
    account = run._driver.account
    stages = dict(account.cpu_s)
    below = descendants_cpu_s()
    return {
        **stages,
        "driver": own_cpu_s(),
        "rest": below - sum(stages.values()),
        "rolled_out": float(account.env_steps),
    }
