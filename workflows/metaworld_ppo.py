"""PPO teaches a Sawyer arm to reach a point (Meta-World reach-v3, MuJoCo). CPU only.

Meta-World asks for another MuJoCo than robosuite: it runs in an interpreter of its own, which
`ebrl env create metaworld` makes. Any of its tasks can be named: ``--set task=metaworld:push-v3``.
"""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.workflow
def metaworld_ppo(
    task: str = "metaworld:reach-v3",
    num_envs: int = 8,
    num_steps: int = 128,
    iterations: int = 300,
    max_staleness: int = 1,
    horizon: int = 150,
    learning_rate: float = 1e-3,
    gamma: float = 0.97,
    reward_scale: float = 0.1,
    epochs: int = 8,
    minibatch: int = 128,
    entropy_coefficient: float = 0.0,
    log_std: float = -0.5,
    stop_at: float = 0.95,
    evaluate_every: int = 10,
) -> None:
    """PPO teaches an arm to reach a point in Meta-World: CPU only.

    horizon: steps of one episode; reward_scale: factor on Meta-World's rewards, which are 0 to 10 per step;
    stop_at: share of 50 evaluation episodes, run every `evaluate_every` iterations, that ends the run.
    """
    simulator = ebrl.simulator(task, horizon=horizon)
    policy = ebrl.policy("mlp", hidden=(64, 64), log_std=log_std)
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate(simulator, actions, num_envs=num_envs, num_steps=num_steps)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(
        policy,
        trajectories,
        learning_rate=learning_rate,
        gamma=gamma,
        reward_scale=reward_scale,
        epochs=epochs,
        minibatch=minibatch,
        entropy_coefficient=entropy_coefficient,
        iterations=iterations,
    )
    evaluate(simulator, policy, weights, stop_at=stop_at, every=evaluate_every, num_envs=2)
