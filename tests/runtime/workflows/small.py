"""Workflows of a few seconds, for tests of whole runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from rewards import shaped_reward

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.stage
def shaped(trajectory: ebrl.Trajectory) -> ebrl.Trajectory:
    return shaped_reward(trajectory)


@ebrl.stage
def fussy(trajectory: ebrl.Trajectory, how: str = "raise") -> ebrl.Trajectory:
    if trajectory.start > 0:
        if how == "exit":
            sys.exit(3)
        raise RuntimeError("too many cooks")
    return trajectory


@ebrl.stage
def picky(trajectory: ebrl.Trajectory, nth: int = 2) -> ebrl.Trajectory | None:
    """Keeps every nth environment; 0 keeps none."""
    return trajectory if nth and trajectory.environment % nth == 0 else None


@ebrl.training
def slow_train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory], seconds: float = 0.2) -> ebrl.Weights:
    time.sleep(seconds)
    return ebrl.Weights.of(0, policy.weights())


def _loop(task: str, num_envs: int, num_steps: int, max_staleness: int):
    policy = ebrl.policy("mlp", hidden=(16,))
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate(task, actions, num_envs=num_envs, num_steps=num_steps)
    actions <<= generate(policy, observations, weights)
    return policy, weights, trajectories


@ebrl.workflow
def small(
    task: str = "gymnasium:Pendulum-v1",
    num_envs: int = 4,
    num_steps: int = 16,
    iterations: int = 6,
    max_staleness: int = 1,
):
    policy, weights, trajectories = _loop(task, num_envs, num_steps, max_staleness)
    weights <<= train_ppo(policy, trajectories, epochs=2, minibatch=32, iterations=iterations)


@ebrl.workflow
def judged(task: str = "gymnasium:Pendulum-v1", iterations: int = 4):
    policy, weights, trajectories = _loop(task, 4, 16, 1)
    weights <<= train_ppo(policy, shaped(trajectories), epochs=2, minibatch=32, iterations=iterations)
    evaluate(task, policy, weights, episodes=4, every=2, num_envs=2)


@ebrl.workflow
def failing(how: str = "raise"):
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    weights <<= slow_train(policy, fussy(trajectories, how=how), iterations=50)


@ebrl.workflow
def filtered(keep_every: int = 2, iterations: int = 4):
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 0)
    weights <<= slow_train(policy, picky(trajectories, nth=keep_every), iterations=iterations, seconds=0.0)


@ebrl.workflow
def slow(seconds: float = 0.2, iterations: int = 200):
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    weights <<= slow_train(policy, trajectories, seconds=seconds, iterations=iterations)


@ebrl.stage
def odd(trajectory: ebrl.Trajectory, how: str = "type") -> ebrl.Trajectory:
    return "a string" if how == "type" else trajectory


@ebrl.stage
def several(trajectory: ebrl.Trajectory) -> Iterator[ebrl.Trajectory]:
    yield trajectory
    raise RuntimeError("in a generator")


@ebrl.training
def ruin(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights:
    return ebrl.Weights.of(0, {name: array * float("nan") for name, array in policy.weights().items()})


@ebrl.workflow
def faulty(where: str = "type"):
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    if where == "weights":
        weights <<= ruin(policy, trajectories, iterations=3)
    else:
        passed = several(trajectories) if where == "generator" else odd(trajectories, how=where)
        weights <<= slow_train(policy, passed, iterations=3, seconds=0.0)
