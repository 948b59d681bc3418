"""PPO teaches a Fetch arm to reach a point (gymnasium-robotics FetchReachDense-v4, MuJoCo). CPU only.

Expect, on 2 cores: about a minute and 5 to 15 thousand environment steps until 95 % of 50 episodes
come within 5 cm of the goal without exploration noise; the run then stops by itself.
"""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.workflow
def reach_ppo(
    task: str = "gymnasium:FetchReachDense-v4",
    num_envs: int = 8,
    num_steps: int = 64,
    iterations: int = 100,
    max_staleness: int = 1,
    learning_rate: float = 1e-3,
    gamma: float = 0.95,
    epochs: int = 8,
    minibatch: int = 128,
    entropy_coefficient: float = 0.0,
    log_std: float = -0.5,
    stop_at: float = 0.95,
    evaluate_every: int = 5,
) -> None:
    """PPO teaches an arm to reach a point: CPU only, one to two minutes.

    stop_at: share of 50 evaluation episodes, run every `evaluate_every` iterations, that ends the run.
    """
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
        entropy_coefficient=entropy_coefficient,
        iterations=iterations,
    )
    evaluate(task, policy, weights, stop_at=stop_at, every=evaluate_every, num_envs=2)
