"""One environment of a `BatchedSimulator` as a `Simulator`. Standard library and numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec
from ebrl.graph.items import Array, Observation, Step


class BatchedRow:
    """The only row of `batch`, a `BatchedSimulator` of one environment."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self.spec: SimulatorSpec = batch.spec

    def reset(self, seed: int) -> Observation:
        return _row(self._batch.reset(np.array([seed])))

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the action range."""
        step = self._batch.step(np.asarray(action)[None])
        success = None if step.success is None else bool(step.success[0])
        flags = bool(step.terminated[0]), bool(step.truncated[0])
        return Step(_row(step.observation), float(step.rewards[0]), *flags, success)

    def close(self) -> None:
        self._batch.close()


def rows_of(num_envs: int, seeds: Array, env_ids: Array | None) -> tuple[Array, Array]:
    """Seeds and rows of a `reset` as int64 [M]; raises ValueError where they do not fit `num_envs` environments."""
    rows = np.arange(num_envs) if env_ids is None else np.asarray(env_ids, np.int64)
    new = np.asarray(seeds, np.int64)
    if rows.ndim != 1 or new.shape != rows.shape or len(np.unique(rows)) != len(rows):
        raise ValueError(f"{new.size} seeds for rows {rows.tolist()}; expected one seed for each of different rows")
    if rows.size and (rows.min() < 0 or rows.max() >= num_envs):
        raise ValueError(f"rows {rows.tolist()} of {num_envs} environments")
    return new, rows


def _row(columns: Mapping[str, Array]) -> Observation:
    return Observation({key: value[0] for key, value in columns.items()})
