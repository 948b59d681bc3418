"""PPO on ManiSkill's PushCube-v1 (SAPIEN, PhysX on the CPU): a Panda arm pushes a cube to a goal.

Needs `ebrl env create maniskill` and a Vulkan device (see README); images are not used. Other tasks that need no
assets: PullCube-v1, PickCube-v1, StackCube-v1, in rising difficulty.
"""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.workflow
def maniskill_ppo(
    task: str = "maniskill:PushCube-v1",
    num_envs: int = 8,
    num_steps: int = 64,
    iterations: int = 400,
    max_staleness: int = 1,
    control_mode: str = "pd_ee_delta_pos",
    learning_rate: float = 3e-4,
    gamma: float = 0.8,
    epochs: int = 8,
    minibatch: int = 128,
    log_std: float = -0.5,
    stop_at: float = 0.9,
    evaluate_every: int = 20,
) -> None:
    """PPO teaches an arm to push a cube, on ManiSkill's normalised dense reward: CPU only.

    control_mode: ManiSkill's own; ``pd_ee_delta_pos`` moves the gripper, ``pd_joint_delta_pos`` the joints;
    stop_at: share of 50 evaluation episodes, run every `evaluate_every` iterations, that ends the run.
    """
    simulator = ebrl.simulator(task, control_mode=control_mode)
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
