"""The physical limit of a task: its simulators step on all cores, with random actions and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import numpy as np
from training_task import TrainingTask, make_simulator, one_thread_each

from ebrl.graph.model import SimulatorRef

_WARM_UP_S = 1.0


def measure(task: TrainingTask, *, seed: int, measure_s: float) -> dict[str, Any]:
    """One process per environment, resets included, as many at once as in training."""
    one_thread_each()
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(task.num_envs)
    counts = context.Queue()
    processes = [
        context.Process(target=_step, args=(task.simulator, seed + index, measure_s, together, counts), daemon=True)
        for index in range(task.num_envs)
    ]
    for process in processes:
        process.start()
    rates = [counts.get() for _ in processes]
    for process in processes:
        process.join()
    return {"env_steps_per_s": sum(rates), "wall_s": measure_s, "cores": len(os.sched_getaffinity(0))}


def _step(reference: SimulatorRef, seed: int, measure_s: float, together: Any, counts: Any) -> None:
    simulator = make_simulator(reference)
    rng = np.random.default_rng(seed)
    simulator.reset(seed)
    together.wait()
    began_s = time.monotonic() + _WARM_UP_S
    steps, now_s = 0, time.monotonic()
    while now_s < began_s + measure_s:
        # About the noise of a policy at the beginning of its training.
        action = rng.normal(0.0, 0.6, simulator.spec.action.shape).astype(np.float32)
        step = simulator.step(action)
        if step.terminated or step.truncated:
            simulator.reset(int(rng.integers(2**32)))
        now_s = time.monotonic()
        steps += now_s >= began_s
    counts.put(steps / (now_s - began_s))
