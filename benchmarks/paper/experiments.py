"""Experiments: what the paper's configurations reach under a schedule, in virtual time, with the best allocation that
the schedule can have."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed

import attrs
from configurations import CONFIGURATIONS
from problems import case
from rich.console import Console

from ebrl.errors import PlanError
from ebrl.graph.schedules import SCHEDULES
from ebrl.rehearse.comparison import Outcome, Trial, rehearsed

_LEAST = 6
"""Iterations."""


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much of an experiment is rehearsed."""

    chunk_steps: int
    """At least so many, in whole iterations."""
    horizons: int | None
    """Of an iteration, as in `problems.case`."""


@attrs.define(frozen=True, kw_only=True)
class Experiment:
    """One schedule on one case."""

    name: str
    """Of the configuration."""
    algorithm: str
    schedule: str = "ebrl"
    without: tuple[str, ...] = ()
    gpus: int = 8
    model: str = "H100"

    @property
    def alike(self) -> Experiment:
        """The same one, under PPO where both algorithms collect the same."""
        set_ups = CONFIGURATIONS[self.name].set_ups
        return attrs.evolve(self, algorithm="ppo") if set_ups["ppo"] == set_ups["grpo"] else self

    @property
    def title(self) -> str:
        left_out = "".join(f" without {mechanism}" for mechanism in self.without)
        return f"{self.name} {self.algorithm.upper()}, {self.gpus} GPUs, {self.schedule}{left_out}"


def outcome(experiment: Experiment, extent: Extent) -> Outcome | None:
    """None where the schedule cannot be had on these devices."""
    found = case(experiment.name, experiment.algorithm, gpus=experiment.gpus, model=experiment.model,
                 horizons=extent.horizons)  # fmt: skip
    schedule = SCHEDULES[experiment.schedule].without(*experiment.without)
    trial = Trial(title=experiment.title, schedule=schedule, gpus=experiment.gpus, problem=found.problem)
    iterations = max(_LEAST, math.ceil(extent.chunk_steps / found.problem.iteration))
    try:
        return rehearsed(trial, found.truth, iterations=iterations, seed=1)[0]
    except PlanError:
        return None


def outcomes(wanted: Iterable[Experiment], extent: Extent, console: Console) -> dict[Experiment, Outcome]:
    """Of those that can be had; on all cores at once, as virtual time does not care."""
    experiments, began_s = list(wanted), time.monotonic()
    found: dict[Experiment, Outcome | None] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        futures = {pool.submit(outcome, one, extent): one for one in dict.fromkeys(e.alike for e in experiments)}
        for future in as_completed(futures):
            found[futures[future]] = result = future.result()
            reached = "not possible" if result is None else f"{result.rate:.3g} chunk-steps/s"
            console.print(f"{time.monotonic() - began_s:5.0f} s  {futures[future].title}: {reached}")
    return {one: result for one in experiments if (result := found[one.alike]) is not None}
