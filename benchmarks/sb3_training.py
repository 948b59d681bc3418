"""The task trained by stable-baselines3: PPO on SubprocVecEnv, around the very same simulator adapter."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from steady_state import SteadyState, descendants_cpu_s, own_cpu_s
from training_task import TrainingTask, make_simulator, one_thread_each

from ebrl.graph.model import SimulatorRef


class SimulatorEnvironment(gymnasium.Env[Any, Any]):
    """A Simulator as a Gymnasium environment: its observations concatenated to one float32 vector."""

    def __init__(self, reference: SimulatorRef, seed: int) -> None:
        self._simulator = make_simulator(reference)
        spec = self._simulator.spec
        self._keys = tuple(spec.observation)
        size = sum(int(np.prod(space.shape)) for space in spec.observation.values())
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        low, high = (np.broadcast_to(bound, spec.action.shape) for bound in (spec.action.low, spec.action.high))
        self.action_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self._seeds = np.random.default_rng(seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._joined(self._simulator.reset(int(self._seeds.integers(2**32)))), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self._simulator.step(action)
        return self._joined(step.observation), step.reward, step.terminated, step.truncated, {}

    def close(self) -> None:
        self._simulator.close()

    def _joined(self, observation: Any) -> Any:
        return np.concatenate([observation[key].ravel() for key in self._keys])


def measure(task: TrainingTask, *, threads: int, seed: int, skip: int, measure_s: float) -> dict[str, Any]:
    """Train with `threads` torch threads in the training process; one in each environment process.

    EBRL's policy also keeps running statistics of the observations. VecNormalize and Monitor, which would
    do the same here, are left out: they only cost time.
    """
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import SubprocVecEnv

    torch.set_num_threads(threads)
    one_thread_each()  # after torch has set itself up: its own threads are as fast as without this
    steady = SteadyState(
        skip=skip,
        measure_s=measure_s,
        steps_per_iteration=task.num_envs * task.num_steps,
        counters=lambda: {"simulation": descendants_cpu_s(), "training process": own_cpu_s()},
    )

    class Iterations(BaseCallback):
        """A rollout begins where the training before it has ended."""

        over = False

        def _on_rollout_start(self) -> None:
            self.over = self.num_timesteps > 0 and steady.iteration_done()

        def _on_step(self) -> bool:
            return not self.over

    environments = SubprocVecEnv(
        [partial(SimulatorEnvironment, task.simulator, 1000 * seed + index) for index in range(task.num_envs)]
    )
    model = PPO("MlpPolicy", environments, device="cpu", seed=seed, **_settings(task))
    try:
        model.learn(total_timesteps=2**62, callback=Iterations())
    finally:
        environments.close()
    return steady.result()


def _settings(task: TrainingTask) -> dict[str, Any]:
    """The workflow's settings under the names that stable-baselines3 gives them."""
    import torch

    ppo, policy = task.ppo, task.policy
    hidden = list(policy["hidden"])
    return {
        "n_steps": task.num_steps,
        "batch_size": ppo["minibatch"],
        "n_epochs": ppo["epochs"],
        "learning_rate": ppo["learning_rate"],
        "gamma": ppo["gamma"],
        "gae_lambda": ppo["gae_lambda"],
        "clip_range": ppo["clip"],
        "ent_coef": ppo["entropy_coefficient"],
        "vf_coef": ppo["value_coefficient"],
        "max_grad_norm": ppo["max_grad_norm"],
        "target_kl": ppo["target_kl"],
        "normalize_advantage": ppo["normalize_advantages"],
        "policy_kwargs": {
            "net_arch": {"pi": hidden, "vf": hidden},
            "activation_fn": torch.nn.Tanh,
            "log_std_init": policy["log_std"],
        },
    }
