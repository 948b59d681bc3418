"""PPO on RoboCasa's CloseDrawer (MuJoCo): a mobile Panda pushes a kitchen drawer shut.

Needs `ebrl env create robocasa`. The scene is one of primitives that ships with EBRL; with RoboCasa's assets (10 GB,
``python -m robocasa.scripts.download_kitchen_assets`` in that environment) ``scene=stock`` draws from its kitchens.
The reward is 1 for success and nothing else, and a new scene is built for every episode (about 0.6 s): a start for a
policy that was trained on demonstrations, and no task to learn from nothing in minutes.
"""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.workflow
def robocasa_ppo(
    task: str = "robocasa:CloseDrawer",
    scene: str = "primitives",
    num_envs: int = 4,
    num_steps: int = 64,
    iterations: int = 200,
    max_staleness: int = 1,
    horizon: int = 150,
    learning_rate: float = 3e-4,
    gamma: float = 0.99,
    epochs: int = 8,
    minibatch: int = 128,
    log_std: float = -0.5,
    stop_at: float = 0.9,
    evaluate_every: int = 20,
) -> None:
    """PPO teaches a mobile arm to close a drawer: CPU only.

    scene: ``primitives`` or ``stock``; horizon: steps of one episode;
    stop_at: share of 50 evaluation episodes, run every `evaluate_every` iterations, that ends the run.
    """
    simulator = ebrl.simulator(task, scene=scene, horizon=horizon)
    policy = ebrl.policy("mlp", hidden=(256, 256), log_std=log_std)
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate(simulator, actions, num_envs=num_envs, num_steps=num_steps)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(
        policy,
        trajectories,
        learning_rate=learning_rate,
        gamma=gamma,
        epochs=epochs,
        minibatch=minibatch,
        iterations=iterations,
    )
    evaluate(simulator, policy, weights, stop_at=stop_at, every=evaluate_every, num_envs=2)
