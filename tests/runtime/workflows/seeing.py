"""A policy that sees and reads, trained for a moment."""

from __future__ import annotations

import ebrl
from ebrl.stages import evaluate, generate, simulate, train_ppo


@ebrl.workflow
def seeing(record_video: int = 0, iterations: int = 2):
    policy = ebrl.policy("vision", hidden=(32,), chunk=2)
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=1)
    task = "gymnasium:lit:Lit-v0"
    observations, trajectories = simulate(task, actions, num_envs=3, num_steps=8)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(policy, trajectories, epochs=2, minibatch=16, iterations=iterations)
    evaluate(task, policy, weights, episodes=4, every=2, num_envs=2, record_video=record_video)
