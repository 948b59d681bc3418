"""Samples of one duration: when there are enough, and what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

_NORMAL_95 = 1.96


@attrs.define(frozen=True, kw_only=True)
class Summary:
    """All in seconds but `interval`."""

    mean_s: float
    p50_s: float
    p99_s: float
    interval: float
    """Half of the 95 % confidence interval of the median, as a share of it; infinite for fewer than 3 samples."""


def summary(samples_s: Sequence[float]) -> Summary:
    """Mean, percentiles and how well the median is known (by order statistics, without any assumed distribution)."""
    ordered = np.sort(np.asarray(samples_s, float))
    count, median = len(ordered), float(np.median(ordered))
    interval = math.inf
    if count >= 3:
        half = _NORMAL_95 * math.sqrt(count) / 2
        low = ordered[max(0, math.floor(count / 2 - half))]
        high = ordered[min(count - 1, math.ceil(count / 2 + half))]
        interval = float(high - low) / 2 / max(median, 1e-12)
    return Summary(
        mean_s=float(ordered.mean()), p50_s=median, p99_s=float(np.percentile(ordered, 99)), interval=interval
    )
