from __future__ import annotations

from collections.abc import Iterator

import ebrl
from good_stages import generate, train


@ebrl.simulation
def walk(env: ebrl.Simulator, chunk: ebrl.ActionChunk, policy: ebrl.Policy) -> Iterator[ebrl.Step]: ...


@ebrl.workflow
def flow():
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = walk("gymnasium:Pendulum-v1", actions, policy)
    actions <<= generate(policy, observations, weights)
    weights <<= train(policy, trajectories)
