"""PPO on LIBERO-Object from pixels: two cameras, the instruction and the arm's own state. CPU only.

Every episode starts from one of the task's 50 initial states. LIBERO rewards success alone, and from scratch an arm
does not find it in minutes: expect a run that shows the whole pipeline at work on a real benchmark (about 10 to 40
environment steps per second on 2 cores, most of it drawing), not a rising success. To learn, begin with a policy
that succeeds now and then. LIBERO runs in an interpreter of its own: ``ebrl env create libero``.
"""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo

CAMERAS = ("agentview", "robot0_eye_in_hand")
# Nothing that a real arm would not know: where the objects are must be seen.
OBSERVATIONS = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "instruction")


@ebrl.workflow
def libero_object_ppo(
    task: str = "libero:libero_object/0",
    num_envs: int = 4,
    num_steps: int = 35,
    iterations: int = 200,
    max_staleness: int = 1,
    horizon: int = 280,
    image_size: int = 128,
    chunk: int = 4,
    learning_rate: float = 3e-4,
    gamma: float = 0.99,
    epochs: int = 4,
    minibatch: int = 70,
    log_std: float = -1.0,
    stop_at: float = 0.95,
    evaluate_every: int = 25,
    evaluate_episodes: int = 10,
    record_video: int = 0,
) -> None:
    """PPO on a LIBERO task with images and language.

    horizon: steps of one episode; num_steps: chunks per environment and iteration; image_size: pixels of the
    square images; stop_at: share of the evaluation episodes that ends the run; record_video: how many of them
    become videos (needs ``pip install av``).
    """
    simulator = ebrl.simulator(
        task,
        horizon=horizon,
        observations=OBSERVATIONS,
        cameras=CAMERAS,
        image_size=(image_size, image_size),
        fast_images=True,
    )
    policy = ebrl.policy("vision", hidden=(256,), chunk=chunk, log_std=log_std)
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
    evaluate(
        simulator,
        policy,
        weights,
        episodes=evaluate_episodes,
        stop_at=stop_at,
        every=evaluate_every,
        num_envs=2,
        record_video=record_video,
    )
