"""Rollout task: simulation and generation of a workflow of this project, with a training that learns nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from training_task import ENDLESS, TrainingTask

import ebrl
from ebrl.backends.protocols import ActorCritic, Policy
from ebrl.graph.items import Batch, Trajectory, Weights
from ebrl.graph.model import PolicyRef, SimulatorRef
from ebrl.stages import generate, simulate


def rollout_task(name: str, **settings: Any) -> TrainingTask:
    """A task of `TrainingTask.named`, or ``pendulum``. Simulator, policy and sizes come from the workflow and nowhere
    else."""
    from ebrl.workflows.pendulum_ppo import pendulum_ppo

    if name == "pendulum":
        trained = TrainingTask.of(pendulum_ppo(iterations=ENDLESS, **settings))
    else:
        trained = TrainingTask.named(name, **settings)
    policy = ebrl.policy("mlp", **trained.policy)
    return TrainingTask(graph=rollout_only(trained.simulator, policy, trained.num_envs, trained.num_steps))


@ebrl.training
def value(policy: Policy, trajectories: Batch[Trajectory]) -> Weights:
    """Estimate values and keep the weights. The peers estimate theirs while they act; in EBRL that is training's."""
    import torch

    assert isinstance(policy, ActorCritic)
    with torch.no_grad():
        policy.values(
            {
                key: torch.from_numpy(np.concatenate([trajectory.observations[key] for trajectory in trajectories]))
                for key in policy.observation_keys
            }
        )
    return Weights.of(0, policy.weights())


@ebrl.workflow
def rollout_only(simulator: SimulatorRef, policy: PolicyRef, num_envs: int, num_steps: int) -> None:
    """The rollout loop of the ready-made workflows: the real engine, at the staleness that they allow."""
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=1)
    observations, trajectories = simulate(simulator, actions, num_envs=num_envs, num_steps=num_steps)
    actions <<= generate(policy, observations, weights)
    weights <<= value(policy, trajectories, iterations=ENDLESS)
