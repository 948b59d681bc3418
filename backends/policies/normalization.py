"""Running mean and variance of observation features, and the affine map that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_PREFIX = "normalization/"


class RunningNormalization:
    """Maps features to about zero mean and unit size: ``(x - shift) * scale``, the identity before any data
    (but for fixed features).

    Statistics are float64 and combined exactly (Chan et al.), so that they do not depend on how the same
    data is cut into updates beyond rounding. `shift` and `scale` are float32 and are written in place:
    whoever holds them, as a torch tensor over the same memory for instance, sees every change.
    """

    def __init__(self, size: int, *, factors: Array | None = None, smallest_deviation: float = 1e-2) -> None:
        """`factors` [size]: a fixed scale, without shift, for every feature where it is not NaN.

        `smallest_deviation`: a feature that hardly moved so far is not blown up when it starts to move.
        """
        factors = np.full(size, np.nan) if factors is None else factors
        self._fixed = ~np.isnan(factors)
        self._factors = factors[self._fixed]
        self.smallest_deviation = smallest_deviation
        self.mean = np.zeros(size)
        self.variance = np.ones(size)
        self.count = np.zeros(())
        self.shift = np.zeros(size, np.float32)
        self.scale = np.ones(size, np.float32)
        self._apply()

    def update(self, features: Array) -> None:
        """Take [N, size] more rows into account."""
        if not len(features):
            return
        rows = features.astype(np.float64)
        count, mean, variance = float(len(rows)), rows.mean(0), rows.var(0)
        before = float(self.count)
        total = before + count
        delta = mean - self.mean
        seen = self.variance * before if before else np.zeros_like(variance)
        self.variance[:] = (seen + variance * count + delta**2 * (before * count / total)) / total
        self.mean += delta * (count / total)
        self.count[...] = total
        self._apply()

    def arrays(self) -> dict[str, Array]:
        return {
            f"{_PREFIX}mean": self.mean.copy(),
            f"{_PREFIX}variance": self.variance.copy(),
            f"{_PREFIX}count": self.count.copy(),
        }

    def load(self, arrays: Mapping[str, Array]) -> None:
        self.mean[:] = arrays[f"{_PREFIX}mean"]
        self.variance[:] = arrays[f"{_PREFIX}variance"]
        self.count[...] = arrays[f"{_PREFIX}count"]
        self._apply()

    def _apply(self) -> None:
        if self.count > 0:
            self.shift[:] = self.mean
            self.scale[:] = 1.0 / np.maximum(np.sqrt(self.variance), self.smallest_deviation)
        else:
            self.shift[:], self.scale[:] = 0.0, 1.0
        self.shift[self._fixed], self.scale[self._fixed] = 0.0, self._factors
