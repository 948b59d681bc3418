"""Generalised advantage estimation over action chunks of different lengths."""

from __future__ import annotations

import numpy as np

from ebrl.graph.items import Array


def chunk_rewards(rewards: Array, steps: Array, gamma: float) -> tuple[Array, Array]:
    """Discounted reward within each chunk, and the discount across it, ``gamma ** steps``: both [L] float64.

    rewards: [L, K], steps: [L], the executed actions of each chunk; rewards beyond them are ignored.
    """
    actions = rewards.shape[1]
    executed = np.arange(actions) < np.asarray(steps)[:, None]
    within = gamma ** np.arange(actions)
    total: Array = (np.where(executed, rewards, 0.0) * within).sum(axis=1)
    return total, gamma ** np.asarray(steps, np.float64)


def advantages(
    rewards: Array, steps: Array, values: Array, *, terminated: bool, gamma: float, gae_lambda: float
) -> Array:
    """Advantage of every chunk of one trajectory, [L] float64.

    rewards: [L, K]; steps: [L].
    values: [L + 1], before every chunk and after the last one. That last value counts unless the episode
        terminated: an episode that was truncated, or a trajectory that was merely cut, goes on in theory.
    gamma: discount per environment step; gae_lambda: per chunk.
    """
    reward, discount = chunk_rewards(rewards, steps, gamma)
    following = np.asarray(values[1:], np.float64).copy()
    if terminated:
        following[-1] = 0.0
    errors = (reward + discount * following - values[:-1]).tolist()
    decay = (discount * gae_lambda).tolist()
    result = np.empty(len(errors))
    running = 0.0
    for chunk in range(len(errors) - 1, -1, -1):
        running = errors[chunk] + decay[chunk] * running
        result[chunk] = running
    return result
