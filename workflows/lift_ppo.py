"""PPO teaches a simulated Panda arm to lift a cube (robosuite Lift, MuJoCo). CPU only.

Expect, on 2 cores: two to three minutes and 15 to 35 thousand environment steps until 95 of 100 episodes
succeed without exploration noise; the run then stops by itself. Robosuite must be installed (see README).
"""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo

OBSERVATIONS = ("gripper_to_cube_pos", "cube_pos", "robot0_eef_pos", "robot0_gripper_qpos", "progress")
# Metres to about unit size. Their zero means "at the cube" and "closed": running statistics would shift it away.
SCALES = {"gripper_to_cube_pos": 10.0, "robot0_gripper_qpos": 50.0}


@ebrl.workflow
def lift_ppo(
    task: str = "robosuite:Lift",
    num_envs: int = 8,
    num_steps: int = 64,
    iterations: int = 200,
    max_staleness: int = 1,
    horizon: int = 40,
    timestep: float = 0.002,
    learning_rate: float = 1e-3,
    gamma: float = 0.97,
    epochs: int = 8,
    minibatch: int = 128,
    entropy_coefficient: float = 0.001,
    log_std: float = -0.5,
    stop_at: float = 0.95,
    evaluate_every: int = 10,
) -> None:
    """PPO teaches a simulated arm to lift a cube: CPU only, a few minutes.

    horizon: steps of one episode; timestep: physics step in seconds (0.005 is faster and less exact);
    stop_at: share of 50 evaluation episodes, run every `evaluate_every` iterations, that ends the run.
    """
    simulator = ebrl.simulator(
        task, controller="OSC_POSITION", horizon=horizon, timestep=timestep, observations=OBSERVATIONS
    )
    policy = ebrl.policy("mlp", hidden=(64, 64), log_std=log_std, observation_scales=SCALES)
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
        entropy_coefficient=entropy_coefficient,
        iterations=iterations,
    )
    evaluate(simulator, policy, weights, stop_at=stop_at, every=evaluate_every, num_envs=2)
