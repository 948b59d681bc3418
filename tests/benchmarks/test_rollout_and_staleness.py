"""The pure parts of `rollout_throughput.py` and `policy_staleness.py`."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from policy_staleness_results import StalenessResults
from policy_staleness_task import chunks_by_staleness, counting, train_and_count
from report import Report
from rich.console import Console
from rollout_actor import Actor
from rollout_results import RolloutResults, compiled_goal
from rollout_task import rollout_task
from training_task import TrainingTask

from ebrl.graph.model import PolicyRef


def _rates(**rates: list[float]) -> dict[str, list[dict[str, Any]]]:
    return {variant: [{"env_steps_per_s": rate} for rate in values] for variant, values in rates.items()}


# The second round ran on a machine of half the speed.
STOCK = RolloutResults(
    task="lift_stock",
    settings={"num_envs": 8},
    rounds=_rates(ebrl=[94.0, 47.0], sb3=[80.0, 40.0], gymnasium=[95.0, 47.5], limit=[100.0, 50.0]),
    absent={"envpool": "it has no robosuite"},
)
COMPILED = RolloutResults(
    task="lift", settings={"num_envs": 8}, rounds=_rates(ebrl=[190.0, 95.0], sb3=[100.0, 50.0]), absent={}
)


def _shown(report: Report) -> str:
    console = Console(width=140, file=io.StringIO())
    report.show(console)
    return console.file.getvalue()


def test_rollouts_are_judged_by_ratios_within_rounds() -> None:
    assert STOCK.best_peer == "gymnasium"
    goals = {goal.name.rpartition(", ")[2]: (goal.value, goal.met) for goal in STOCK.goals()}
    assert goals["EBRL of the limit"] == (pytest.approx(0.94), True)
    assert goals["EBRL over stable-baselines3 SubprocVecEnv"] == (pytest.approx(1.175), True)
    assert goals["EBRL over Gymnasium AsyncVectorEnv"] == (pytest.approx(0.98947, rel=1e-4), False)
    assert (goal := compiled_goal(COMPILED, STOCK)).met
    assert goal.value == pytest.approx(2.0)
    assert "AsyncVectorEnv" in goal.name


def test_rollout_table_says_who_is_absent_and_why() -> None:
    report = Report(name="example", command="")
    STOCK.add_to(report)
    shown = _shown(report)
    assert "EnvPool (simulators of its own): it has no robosuite" in shown
    assert "0.99 [0.99 .. 0.99]" in shown
    assert report.figures["lift_stock"]["of_limit"]["ebrl"].median == pytest.approx(0.94)


@pytest.mark.parametrize("name", ["lift_stock", "lift", "reach", "pendulum"])
def test_a_rollout_task_is_the_workflow_with_a_training_that_learns_nothing(name: str) -> None:
    task = rollout_task(name, num_envs=3, num_steps=16)
    assert (task.num_envs, task.num_steps) == (3, 16)
    assert task.policy["hidden"] == (64, 64)
    assert [node.stage.name for node in task.graph.nodes.values()] == ["simulate", "generate", "value"]
    assert task.graph.folder.endswith("benchmarks")
    assert task.simulator.options.get("fast_control", True) is (name != "lift_stock")


def test_peers_act_within_the_range_and_with_the_density_of_the_policy() -> None:
    actor = Actor(3, np.array([-2.0]), np.array([2.0]), hidden=(64, 64), log_std=-0.5, seed=0)
    observations = np.random.default_rng(0).normal(size=(4096, 3)).astype(np.float32)
    actions, log_probs, values = actor.act(observations)
    assert (actions.shape, log_probs.shape, values.shape) == ((4096, 1), (4096,), (4096,))
    assert np.abs(actions).max() == 2.0  # a deviation is 0.6 of the half width
    # Negative entropy of that Gaussian, in the units of the action.
    assert log_probs.mean() == pytest.approx(-0.5 - np.log(2 * np.pi) / 2 + 0.5 - np.log(2.0), abs=0.05)


def test_shares_by_staleness() -> None:
    rounds = {
        "staleness_1": [
            {"chunks": {"0": 3, "1": 1}, "env_steps_per_s": 90.0},
            {"chunks": {"0": 4}, "env_steps_per_s": 80.0},
        ],
        "sync": [{"chunks": {"0": 4}, "env_steps_per_s": 70.0}],
    }
    results = StalenessResults(task="lift", settings={"num_envs": 8}, rounds=rounds)
    shares = results.shares("staleness_1")
    assert [shares[staleness].median for staleness in (0, 1, 2)] == [0.875, 0.125, 0.0]
    assert (results.mean("staleness_1").median, results.largest("staleness_1")) == (0.125, 1)
    assert (results.mean("sync").median, results.largest("sync")) == (0.0, 0)

    report = Report(name="example", command="")
    results.add_to(report)
    assert "87.5" in _shown(report)


def test_staleness_beyond_the_bound_is_shown() -> None:
    rounds = {"sync": [{"chunks": {"3": 1}, "env_steps_per_s": 1.0}]}
    results = StalenessResults(task="reach", settings={}, rounds=rounds)
    assert results.shares("sync")[3].median == 1.0
    report = Report(name="example", command="")
    results.add_to(report)
    assert "100.0" in _shown(report)


def test_chunks_are_summed_over_iterations() -> None:
    stats = [
        {"train_ppo/chunks_1": 10.0, "train_ppo/loss": 3.0},
        {"train_ppo/chunks_0": 2.0, "train_ppo/chunks_1": 5.0},
    ]
    assert chunks_by_staleness(stats) == {"0": 2, "1": 15}


def test_a_counting_task_differs_in_its_training_function_only() -> None:
    task = TrainingTask.named("reach", num_envs=2)
    counted = counting(task)
    before, after = (each.graph.of_kind("training")[0] for each in (task, counted))
    assert after.stage.function is train_and_count
    assert (after.values, after.options, after.stage.inputs) == (before.values, before.options, before.stage.inputs)
    assert isinstance(after.values["policy"], PolicyRef)
