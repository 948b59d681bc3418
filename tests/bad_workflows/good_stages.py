"""Sound stages for the faulty workflows beside this file."""

from __future__ import annotations

from collections.abc import Iterator

import ebrl


@ebrl.simulation
def simulate(env: ebrl.Simulator, chunk: ebrl.ActionChunk) -> Iterator[ebrl.Step]:
    for action in chunk:
        yield env.step(action)


@ebrl.generation
def generate(
    policy: ebrl.Policy, observations: ebrl.Batch[ebrl.Observation], weights: ebrl.Weights
) -> ebrl.Batch[ebrl.ActionChunk]:
    return policy.act(observations)


@ebrl.training
def train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights:
    return ebrl.Weights.of(1, policy.weights())


@ebrl.stage
def relabel(trajectory: ebrl.Trajectory) -> ebrl.Trajectory:
    return trajectory
