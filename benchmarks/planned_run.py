"""Runs under a given plan: what they reach, and the plans that can be given on a machine of few cores."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import attrs

import ebrl
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.observe.events import Event
from ebrl.planner.first_plan import first_plan
from ebrl.resources.pool import ResourcePool

SKIP = 8
"""Iterations before the measurement: start-up, first resets, filling of the pipeline."""


@attrs.define(frozen=True, kw_only=True)
class Reached:
    """What a run reached."""

    env_steps_per_s: float
    events: list[Event]
    plan: Plan
    """The one at its end."""


def reached(graph: Graph, plan: Plan, *, measure_s: float, replan: bool = False, most_s: float = 300.0) -> Reached:
    """Environment steps per second in `measure_s` seconds under `plan`; where it may `replan`, from its first new plan
    and the iterations after it on. RuntimeError where that does not come in `most_s` seconds."""
    events: list[Event] = []
    began_s, since, first = time.monotonic(), None, 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        ebrl.launch(graph, run_dir=f"{folder}/run", plan=plan, replan=replan, observers=[events.append]) as run,
    ):
        settled = SKIP
        for number, iteration in enumerate(run):
            now = time.monotonic()
            if replan and run.plan.epoch == plan.epoch:
                settled = number + SKIP
                if now - began_s > most_s:
                    raise RuntimeError(f"no new plan in {most_s:.0f} s")
                continue
            if number >= settled and since is None:
                since, first = now, iteration.stats["env_steps"]
            elif since is not None and now - since >= measure_s:
                rate = (iteration.stats["env_steps"] - first) / (now - since)
                return Reached(env_steps_per_s=rate, events=events, plan=run.plan)
    raise RuntimeError("the run ended before the measurement was complete")


def changed(plan: Plan, *, batch: int, cores: tuple[int, ...], threads: int) -> Plan:
    """`plan` with other batches of generation, cores of simulation and threads of training."""

    def other(stage: Any) -> Any:
        if stage.kind == "simulation":
            return attrs.evolve(stage, quota=attrs.evolve(stage.quota, cores=cores))
        if stage.kind == "generation":
            return attrs.evolve(stage, batch_size=batch)
        if stage.kind == "training":
            return attrs.evolve(stage, quota=attrs.evolve(stage.quota, threads=threads))
        return stage

    return attrs.evolve(plan, stages=tuple(other(stage) for stage in plan.stages))


def named(plan: Plan) -> str:
    """``batch 8, simulation on 2, training with 1``"""
    stages = {stage.kind: stage for stage in plan.stages}
    simulating, threads = len(stages["simulation"].quota.cores), stages["training"].quota.threads
    return f"batch {stages['generation'].batch_size}, simulation on {simulating}, training with {threads}"


def wrong(graph: Graph) -> Plan:
    """Batch 1, and all cores but one are kept from the simulation."""
    pool = ResourcePool.discover()
    return changed(first_plan(graph, pool), batch=1, cores=pool.cores[:1], threads=len(pool.cores))


def every(graph: Graph, *, few: bool = False) -> Iterator[Plan]:
    """All plans of the grid; `few` leaves most of it out."""
    pool = ResourcePool.discover()
    environments = int(graph.of_kind("simulation")[0].options["num_envs"])
    batches = [environments] if few else sorted({1, 2, 4, environments} & set(range(1, environments + 1)))
    threads = [1] if few else sorted({1, len(pool.cores)})
    for batch, cores, count in product(batches, sorted({1, len(pool.cores)}), threads):
        yield changed(first_plan(graph, pool), batch=batch, cores=pool.cores[:cores], threads=count)
