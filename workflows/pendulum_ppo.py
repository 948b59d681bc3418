"""PPO on Gymnasium's Pendulum-v1: the smoke test of the engine, without MuJoCo. CPU only.

Expect the mean return of an episode to rise from about -1200 to between -150 and -350 within 80 thousand
environment steps. Pendulum reports no success, so the run ends after `iterations`.
"""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.workflow
def pendulum_ppo(
    task: str = "gymnasium:Pendulum-v1",
    num_envs: int = 8,
    num_steps: int = 128,
    iterations: int = 80,
    max_staleness: int = 1,
    learning_rate: float = 1e-3,
    gamma: float = 0.95,
    epochs: int = 8,
    minibatch: int = 128,
    reward_scale: float = 0.1,
    log_std: float = -0.5,
    evaluate_every: int = 20,
) -> None:
    """PPO swings a pendulum up."""
    policy = ebrl.policy("mlp", hidden=(64, 64), log_std=log_std)
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate(task, actions, num_envs=num_envs, num_steps=num_steps)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(
        policy,
        trajectories,
        learning_rate=learning_rate,
        gamma=gamma,
        epochs=epochs,
        minibatch=minibatch,
        reward_scale=reward_scale,
        iterations=iterations,
    )
    evaluate(task, policy, weights, episodes=20, every=evaluate_every, num_envs=2)
