"""A workflow whose network can be resized, for tests of what fits a checkpoint."""

from __future__ import annotations

import ebrl
from ebrl.stages import generate, simulate, train_ppo


@ebrl.workflow
def sized(hidden: int = 16, num_envs: int = 4, iterations: int = 2, max_staleness: int = 1):
    policy = ebrl.policy("mlp", hidden=(hidden,))
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions, num_envs=num_envs, num_steps=16)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(policy, trajectories, epochs=1, iterations=iterations)
