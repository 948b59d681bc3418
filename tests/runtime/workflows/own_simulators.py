"""Simulators of the user's: one by the address of its class, one by a name that is registered."""

from __future__ import annotations

import own_pendulum  # noqa: F401 (registers ``own``)

import ebrl
from ebrl.stages import generate, simulate, train_ppo


@ebrl.workflow
def own_simulators(task: str = "own_pendulum:Own") -> None:
    """A few steps."""
    policy = ebrl.policy("mlp", hidden=(8,))
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=1)
    observations, trajectories = simulate(task, actions, num_envs=2, num_steps=8)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(policy, trajectories, epochs=1, minibatch=8, iterations=2)
