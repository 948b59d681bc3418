"""Measurements in, plans out; and one run that begins with a bad plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

import ebrl
from ebrl.graph.load import load_workflow
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.costs import Point
from ebrl.planner.feedback import Measurement
from ebrl.planner.first_plan import first_plan
from ebrl.planner.learning import LEARN, SKIP
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.replanning import Replanning, applies
from ebrl.stages import generate, simulate, train_ppo

from .conftest import WORKFLOWS, Outcome

POOL = ResourcePool(cores=(2, 3))


@ebrl.workflow
def small(num_envs: int = 8, num_steps: int = 8, batch_size: int | None = None) -> None:
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("emulated:fast", actions, num_envs=num_envs, num_steps=num_steps)
    actions <<= generate(policy, observations, weights, batch_size=batch_size)
    weights <<= train_ppo(policy, trajectories)


def with_cores(plan: Plan, cores: tuple[int, ...], batch: int) -> Plan:
    stages = []
    for stage in plan.stages:
        if stage.kind == "simulation":
            stage = attrs.evolve(stage, quota=attrs.evolve(stage.quota, cores=cores))
        if stage.kind == "generation":
            stage = attrs.evolve(stage, batch_size=batch)
        stages.append(stage)
    return attrs.evolve(plan, stages=tuple(stages))


def measurement(cores: int, batch: int) -> Measurement:
    """Of a machine where a chunk takes 10 ms, a generation call 1 ms, and training 1 ms per chunk."""
    simulation, generation = cores / 0.010, batch / 0.001
    rate = min(simulation, 2 / (0.010 + 0.001 / batch + 0.001))  # both cores are shared
    return Measurement(throughput=rate, simulation_rate=simulation, generation_rate=generation, training_rate=1 / 0.001)


def calls(*batches: int) -> list[Point]:
    """Of the generation of that machine, of whatever size."""
    return [Point(quota=1, batch=batch, seconds=0.001, core_s=0.001) for batch in batches]


def follow(replanning: Replanning, plan: Plan, steps: int) -> Plan:
    """`steps` iterations of that machine under whatever plan is in force."""
    for step in range(steps):
        stages = {stage.kind: stage for stage in plan.stages}
        measured = measurement(len(stages["simulation"].quota.cores), stages["generation"].batch_size)
        plan = replanning.after(measured, steps_left=1000 - step) or plan
    return plan


def test_a_bad_plan_is_mended_and_says_so() -> None:
    graph = small()
    bad = with_cores(first_plan(graph, POOL), (2,), batch=1)
    events: list[tuple[str, dict[str, Any]]] = []
    replanning = Replanning(graph, bad, POOL, lambda kind, **data: events.append((kind, data)))
    assert replanning.unknown == tuple((batch, threads) for batch in (1, 4, 8) for threads in (1, 2))
    replanning.timed(calls(1, 4, 8))
    plan = follow(replanning, bad, SKIP + LEARN + 100)
    stages = {stage.kind: stage for stage in plan.stages}
    assert stages["simulation"].quota.cores == (2, 3)
    assert stages["simulation"].quota.bound
    assert stages["generation"].batch_size == 8  # a call costs the same for all
    kinds = [kind for kind, _ in events]
    assert kinds[:3] == ["learning", "replan", "outcome"]
    assert "replan" not in kinds[3:]
    assert events[0][1] == {"stage": "train_ppo", "threads": 2, "planned": 1}
    first, outcome = events[1][1], events[2][1]
    assert first["changes"] == ["simulate: cores 2 -> 2,3", "generate: batch_size 1 -> 8"]
    assert first["predicted_gain"] == pytest.approx(outcome["achieved_gain"], rel=0.1)
    assert plan.epoch == 1
    assert plan.predicted == pytest.approx(first["predicted_new"])


def test_what_the_author_fixed_stays() -> None:
    graph = small(batch_size=2)
    bad = with_cores(first_plan(graph, POOL), (2,), batch=2)
    replanning = Replanning(graph, bad, POOL, lambda kind, **data: None)
    replanning.timed(calls(1, 8))
    plan = follow(replanning, bad, SKIP + LEARN + 60)
    assert plan.epoch == 1
    assert plan.stage("generate").batch_size == 2


def test_where_plans_stay_as_they_are() -> None:
    graph = small()
    assert applies(first_plan(graph, POOL), [POOL])
    assert applies(first_plan(graph, POOL, without=["rebinding", "pipeline"]), [POOL])
    assert not any(applies(first_plan(graph, POOL, name), [POOL]) for name in SCHEDULES if name != "ebrl")
    assert not any(applies(first_plan(graph, POOL, without=[name]), [POOL]) for name in ("allocation", "overlap"))
    assert not applies(first_plan(graph, POOL), [POOL, POOL])


@pytest.mark.slow
def test_a_run_recovers_from_a_bad_plan(launch: Callable[..., Outcome]) -> None:
    pool = ResourcePool.discover()
    if len(pool.cores) < 2:
        pytest.skip("one core cannot be divided badly")
    graph = load_workflow(f"{WORKFLOWS}:small").with_settings([])
    bad = with_cores(first_plan(graph, pool), pool.cores[:1], batch=1)
    outcome = launch("small", f"iterations={SKIP + LEARN + 30}", plan=bad)
    assert outcome.of("started")[0]["plan"] == bad
    replanned = outcome.of("replan")
    assert replanned and replanned[0]["changes"][0].startswith(f"simulate: cores {pool.cores[0]} -> ")
    kept = json.loads((outcome.folder / "plan.json").read_text())
    assert kept["epoch"] >= 1
