"""Vector environments of others, each with the same network acting.

stable-baselines3 and Gymnasium step the simulator adapters of this project, which EBRL steps too; EnvPool has
simulators of its own, in C++ and on threads.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
from functools import partial
from typing import Any, Protocol

import numpy as np
from steady_state import SteadyState, descendants_cpu_s, own_cpu_s
from training_task import TrainingTask, one_thread_each

from ebrl.graph.model import SimulatorRef

Array = np.ndarray[Any, np.dtype[Any]]


_PRELOADED = {"robosuite": "robosuite", "gymnasium": "gymnasium_robotics"}
"""By backend: what takes long to import. The processes of the environments fork from one that has it."""


class Vector(Protocol):
    """N environments that step together and reset by themselves."""

    actions: Any
    """Space of one environment's actions."""

    def reset(self) -> Array:
        """Observations [N, F] float32."""
        ...

    def step(self, actions: Array) -> tuple[Array, int]:
        """Observations after `actions` [N, A], and how many environment steps that were."""
        ...

    def close(self) -> None: ...


class StableBaselines3:
    """SubprocVecEnv."""

    def __init__(self, task: TrainingTask, seed: int) -> None:
        from stable_baselines3.common.vec_env import SubprocVecEnv

        self._environments = SubprocVecEnv(_makers(task, seed))
        self.actions = self._environments.action_space
        self._count = task.num_envs

    def reset(self) -> Array:
        observations: Array = self._environments.reset()
        return observations

    def step(self, actions: Array) -> tuple[Array, int]:
        observations, _, _, _ = self._environments.step(actions)
        return observations, self._count

    def close(self) -> None:
        self._environments.close()


class Gymnasium:
    """AsyncVectorEnv on shared memory, which it shows without a copy; an episode's end and the next reset are one step,
    so that every step is one of every environment."""

    def __init__(self, task: TrainingTask, seed: int) -> None:
        from gymnasium.vector import AsyncVectorEnv, AutoresetMode

        self._environments = AsyncVectorEnv(
            _makers(task, seed),
            shared_memory=True,
            copy=False,
            context="forkserver",  # that of SubprocVecEnv: torch has threads, which no fork may copy
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        self.actions = self._environments.single_action_space
        self._count = task.num_envs

    def reset(self) -> Array:
        observations, _ = self._environments.reset()
        return observations

    def step(self, actions: Array) -> tuple[Array, int]:
        observations, *_ = self._environments.step(actions)
        return observations, self._count

    def close(self) -> None:
        self._environments.close()


class EnvPool:
    """All environments in each batch. What follows an episode's end is a reset, whose action is ignored: no step."""

    def __init__(self, task: TrainingTask, seed: int) -> None:
        import envpool

        self._environments = envpool.make(
            task.simulator.target, env_type="gymnasium", num_envs=task.num_envs, seed=seed
        )
        self.actions = self._environments.action_space
        self._over = np.zeros(task.num_envs, bool)

    def reset(self) -> Array:
        observations, _ = self._environments.reset()
        return _joined(observations)

    def step(self, actions: Array) -> tuple[Array, int]:
        observations, _, terminated, truncated, _ = self._environments.step(actions)
        steps = len(actions) - int(self._over.sum())
        self._over = terminated | truncated
        return _joined(observations), steps

    def close(self) -> None:
        self._environments.close()


PEERS = {"sb3": StableBaselines3, "gymnasium": Gymnasium, "envpool": EnvPool}


def envpool_lacks(simulator: SimulatorRef) -> str | None:
    """Why EnvPool cannot take part; None where it can."""
    if simulator.backend != "gymnasium":
        return f"it has no {simulator.backend}"
    if importlib.util.find_spec("envpool") is None:
        return "not installed"
    import envpool

    return None if simulator.target in envpool.list_all_envs() else f"it has no {simulator.target}"


def measure(task: TrainingTask, *, peer: str, seed: int, skip: int, measure_s: float) -> dict[str, Any]:
    """Act and step; `skip` and iterations as in training, an iteration being `task.num_steps` steps of each."""
    import torch
    from rollout_actor import Actor

    torch.set_num_threads(1)
    one_thread_each()
    stepped = 0
    steady = SteadyState(
        skip=skip,
        measure_s=measure_s,
        steps_per_iteration=task.num_envs * task.num_steps,
        counters=lambda: {"simulation": descendants_cpu_s(), "acting process": own_cpu_s(), "stepped": float(stepped)},
    )
    vector: Vector = PEERS[peer](task, seed)
    try:
        observations, over = vector.reset(), False
        low, high, options = vector.actions.low, vector.actions.high, task.policy
        actor = Actor(observations.shape[1], low, high, hidden=options["hidden"], log_std=options["log_std"], seed=seed)
        while not over:
            for _ in range(task.num_steps):
                actions, _, _ = actor.act(observations)
                observations, steps = vector.step(actions)
                stepped += steps
            over = steady.iteration_done()
    finally:
        vector.close()
    result = steady.result()
    env_steps = result["grown"].pop("stepped")
    return result | {"env_steps": env_steps, "env_steps_per_s": env_steps / result["wall_s"]}


def _makers(task: TrainingTask, seed: int) -> list[Any]:
    from sb3_training import SimulatorEnvironment

    multiprocessing.set_forkserver_preload([_PRELOADED[task.simulator.backend]])
    return [partial(SimulatorEnvironment, task.simulator, 1000 * seed + index) for index in range(task.num_envs)]


def _joined(observations: Any) -> Array:
    """One float32 vector per environment, also of a dictionary of observations."""
    if not isinstance(observations, dict):
        return np.asarray(observations, np.float32)
    columns = [np.asarray(column, np.float32).reshape(len(column), -1) for column in observations.values()]
    return np.concatenate(columns, axis=1)
