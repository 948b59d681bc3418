"""Generation: a policy plans action chunks for a batch of observations."""

from __future__ import annotations

from ebrl.backends.protocols import Policy
from ebrl.graph.items import ActionChunk, Batch, Observation, Weights
from ebrl.graph.stage import generation


@generation
def generate(policy: Policy, observations: Batch[Observation], weights: Weights) -> Batch[ActionChunk]:
    """Act with the newest weights; the `weights` port makes the engine load them into `policy`."""
    return policy.act(observations)
