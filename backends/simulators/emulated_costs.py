"""Costs of an emulated environment: how long a call takes, and how it spends the time. Standard library, numpy."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.errors import UsageError

_Z99 = 2.3263478740408408
"""The standard normal distribution stays below this in 99 % of all draws."""
LARGEST_RATIO = math.exp(_Z99 * _Z99 / 2)
"""A lognormal distribution's P99 is at most this many times its mean, about 15."""


class Cost:
    """Seconds of one call: a constant, a lognormal distribution, or one of the entries of a table.

    Raises UsageError where no such distribution exists; `name` is that of the options, ``step`` or ``reset``.
    """

    def __init__(self, name: str, mean_s: float, p99_s: float | None = None, table_s: Sequence[float] = ()) -> None:
        self._table = tuple(float(entry) for entry in table_s)
        if not all(math.isfinite(entry) and entry >= 0 for entry in (mean_s, p99_s or 0.0, *self._table)):
            raise UsageError(f"{name} costs are seconds of at least 0", hint=f"?{name}_s=0.01")
        self._mean, self._sigma = float(mean_s), 0.0
        if p99_s is not None and self._mean:
            if not 1 <= p99_s / self._mean <= LARGEST_RATIO:
                raise UsageError(
                    f"no lognormal distribution has a mean of {mean_s:g} s and a P99 of {p99_s:g} s",
                    hint=f"make {name}_p99_s 1 to {LARGEST_RATIO:.1f} times {name}_s, or give a {name}_table",
                )
            self._sigma = _Z99 - math.sqrt(max(0.0, _Z99 * _Z99 - 2 * math.log(p99_s / self._mean)))

    def draw(self, rng: np.random.Generator) -> float:
        if self._table:
            return self._table[int(rng.integers(len(self._table)))]
        if not self._sigma:
            return self._mean
        return self._mean * math.exp(self._sigma * float(rng.standard_normal()) - self._sigma * self._sigma / 2)


def mean_of(median_s: float, p99_s: float) -> float:
    """The mean of the lognormal distribution with this median and P99, which is how measurements are told."""
    sigma = math.log(p99_s / median_s) / _Z99
    return median_s * math.exp(sigma * sigma / 2)


def p99_of(mean_s: float, sigma: float) -> float:
    """The P99 of the lognormal distribution with this mean, `sigma` that of the logarithm."""
    return mean_s * math.exp(_Z99 * sigma - sigma * sigma / 2)


def sleep(duration_s: float) -> None:
    """Let wall time pass and use no core."""
    if duration_s > 0:
        time.sleep(duration_s)


def spin(duration_s: float) -> None:
    """Use a core for so much CPU time of this thread; with less than a whole core it takes longer, as work does."""
    end_s = time.thread_time() + duration_s
    while time.thread_time() < end_s:
        pass


MODES: dict[str, Any] = {"sleep": sleep, "spin": spin}
