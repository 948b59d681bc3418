"""Trajectories of one training iteration, laid out as flat arrays of chunks."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from ebrl.graph.items import Array, Trajectory
from ebrl.stages.advantage import advantages


@attrs.define(frozen=True, kw_only=True, eq=False)
class Rollout:
    """N chunks of several trajectories; M = N + one final observation for each trajectory."""

    observations: dict[str, Array]
    """Each [M, ...], trajectory after trajectory; text as an array of str."""
    rows: Array
    """[N] index of the observation before each chunk."""
    actions: Array
    """[N, K, *shape]"""
    log_probs: Array
    """[N, K, A] float32, as generated."""
    executed: Array
    """[N, K] bool, False for actions after the end of an episode."""
    versions: Array
    """[N] int64"""
    trajectories: tuple[Trajectory, ...]

    @staticmethod
    def of(trajectories: Sequence[Trajectory], keys: Sequence[str]) -> Rollout:
        """Lay out `trajectories`, with the observations named by `keys`. Raises ValueError on numbers that are none."""
        parts = tuple(trajectory for trajectory in trajectories if len(trajectory))
        if not parts:
            raise ValueError("there is no chunk to train on")
        for part in parts:
            _check_finite(part, keys)
        lengths = np.array([len(part) for part in parts])
        starts = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
        actions = np.concatenate([part.actions for part in parts])
        steps = np.concatenate([part.steps for part in parts])
        return Rollout(
            observations={key: np.concatenate([part.observations[key] for part in parts]) for key in keys},
            rows=np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths, strict=True)]),
            actions=actions,
            log_probs=np.concatenate([part.log_probs for part in parts]),
            executed=np.arange(actions.shape[1]) < steps[:, None],
            versions=np.concatenate([part.versions for part in parts]),
            trajectories=parts,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def before_chunks(self) -> dict[str, Array]:
        """The observations [N, ...] that the chunks were planned from."""
        return {key: array[self.rows] for key, array in self.observations.items()}

    def advantages(self, values: Array, *, gamma: float, gae_lambda: float, reward_scale: float = 1.0) -> Array:
        """Advantage of every chunk [N] float64, from a value for each of the M observations."""
        parts, start = [], 0
        for trajectory in self.trajectories:
            stop = start + len(trajectory) + 1
            parts.append(
                advantages(
                    trajectory.rewards * reward_scale,
                    trajectory.steps,
                    values[start:stop],
                    terminated=trajectory.terminated,
                    gamma=gamma,
                    gae_lambda=gae_lambda,
                )
            )
            start = stop
        return np.concatenate(parts)


def _check_finite(trajectory: Trajectory, keys: Sequence[str]) -> None:
    arrays = {f"observation {key!r}": trajectory.observations[key] for key in keys}
    arrays |= {"the rewards": trajectory.rewards, "the log-probabilities": trajectory.log_probs}
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(
                f"{name} of environment {trajectory.environment}, episode {trajectory.episode}, "
                f"chunks {trajectory.start} to {trajectory.start + len(trajectory) - 1}, are not finite"
            )
