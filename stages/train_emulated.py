"""Training that takes its time: the training stage of emulated policies."""

from __future__ import annotations

from ebrl.backends.policies.emulated import EmulatedPolicy
from ebrl.backends.protocols import Policy
from ebrl.errors import UsageError
from ebrl.graph.items import Batch, Trajectory, Weights
from ebrl.graph.stage import training


@training
def train_emulated(policy: Policy, trajectories: Batch[Trajectory]) -> Weights:
    """Learn nothing from `trajectories`, in the time that an iteration with so many chunk-steps takes."""
    if not isinstance(policy, EmulatedPolicy):
        raise UsageError(
            f"{type(policy).__name__} computes", where="train_emulated", hint="train it with another stage: train_ppo"
        )
    policy.train(sum(len(trajectory) for trajectory in trajectories))
    return Weights.of(0, policy.weights())
