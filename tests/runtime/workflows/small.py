"""Workflows of a few seconds, for tests of whole runs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rewards import shaped_reward

import ebrl
from ebrl.errors import UsageError
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
def misjudged():
    """Only the stage that judges finds that its task does not exist."""
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    weights <<= slow_train(policy, trajectories, iterations=4, seconds=0.0)
    evaluate("gymnasium:Pendulom-v1", policy, weights, episodes=2, every=1, num_envs=1)


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


class Unpicklable(Exception):
    def __init__(self, what: str, *, code: int) -> None:
        super().__init__(f"{what} with code {code}")
        self.lock = threading.Lock()


@ebrl.stage(memory_mib=300)
def dying(trajectory: ebrl.Trajectory, how: str = "exit", folder: str = "") -> ebrl.Trajectory:
    """Ends its worker, or raises what is hard to tell of, or leaves a process behind."""
    if how == "exit":
        os._exit(3)
    if how == "crash":
        ctypes.string_at(0)
    if how == "memory":
        held = []
        while True:
            held.append(np.ones(20 << 17))
            time.sleep(0.02)
    if how == "unpicklable":
        try:
            {}["gripper"]
        except KeyError as error:
            raise Unpicklable("no gripper", code=7) from error
    if how == "usage":
        raise UsageError("the reward model is missing", hint="download it")
    if how == "process":
        process = subprocess.Popen(["sleep", "1000"])
        (Path(folder) / str(process.pid)).touch()
        time.sleep(0.2)
    return trajectory


@ebrl.workflow
def deadly(how: str = "exit", folder: str = "", iterations: int = 3):
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    weights <<= slow_train(policy, dying(trajectories, how=how, folder=folder), iterations=iterations, seconds=0.0)


@ebrl.training
def satisfied_train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights:
    ebrl.stop("that was enough")
    return ebrl.Weights.of(0, policy.weights())


@ebrl.workflow
def satisfied():
    """Stops after its first iteration."""
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    weights <<= satisfied_train(policy, trajectories)


@ebrl.training
def fresh_train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory], state: ebrl.State) -> ebrl.Weights:
    """Refuses to train long on the same trajectories."""
    version = state["version"] = state.get("version", -1) + 1
    oldest = min(int(trajectory.versions.min()) for trajectory in trajectories)
    if version > oldest + 3:
        raise ValueError(f"iteration {version} on trajectories of {oldest}")
    return ebrl.Weights.of(version + 1, policy.weights())


@ebrl.workflow
def eager():
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    weights <<= fresh_train(policy, trajectories)


NAME = os.fsdecode(b"caf\xe9")  # as a file may be called; no encoding has it


@ebrl.generation
def misnaming(
    policy: ebrl.Policy, observations: ebrl.Batch[ebrl.Observation], weights: ebrl.Weights
) -> ebrl.Batch[ebrl.ActionChunk]:
    raise OSError(f"no {NAME}")


@ebrl.stage
def naming(trajectory: ebrl.Trajectory, where: str = "stop") -> ebrl.Trajectory:
    if where == "stage":
        raise OSError(f"no {NAME}")
    if where == "error":
        raise UsageError("no file", place=NAME, hint=NAME)
    if where == "stop":
        ebrl.report(**{NAME: 1.0})
        ebrl.stop(NAME)
    return trajectory


@ebrl.training
def train_named(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory], where: str = "") -> ebrl.Weights:
    if where == "train":
        raise OSError(f"no {NAME}")
    return ebrl.Weights.of(0, policy.weights())


@ebrl.workflow
def named(where: str = "stop"):
    """What its stages say cannot be encoded."""
    policy, weights, trajectories = _loop("gymnasium:Pendulum-v1", 2, 8, 1)
    weights <<= train_named(policy, naming(trajectories, where=where), where=where, iterations=20)


@ebrl.workflow
def misnamed():
    policy, actions, weights = ebrl.policy("mlp"), ebrl.stream(ebrl.ActionChunk), ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions, num_envs=2, num_steps=8)
    actions <<= misnaming(policy, observations, weights)
    weights <<= slow_train(policy, trajectories, iterations=2)
