from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.backends.policies.noise import normal, uniform

GOLDEN = 0x9E3779B97F4A7C15
SEEDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20)


@given(SEEDS, st.integers(1, 33))
@settings(max_examples=50, deadline=None)
def test_a_row_depends_on_its_seed_alone(seeds: list[int], count: int) -> None:
    together = normal(np.array(seeds, np.uint64), count)
    assert together.shape == (len(seeds), count)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    for seed, row in zip(seeds, together, strict=True):
        assert np.array_equal(normal(np.array([seed], np.uint64), count)[0], row)


@pytest.mark.parametrize("step", [1, 2, 2**32, GOLDEN, (GOLDEN * 7) % 2**64])
def test_numbers_are_standard_normal_and_independent_for_related_seeds(step: int) -> None:
    # Seeds that differ by a constant, also by the increment between positions of one row.
    with np.errstate(over="ignore"):
        seeds = np.arange(20_000, dtype=np.uint64) * np.uint64(step)
    rows = normal(seeds, 6).astype(np.float64)
    assert np.abs(rows.mean(0)).max() < 0.03
    assert np.abs(rows.std(0) - 1).max() < 0.03
    assert abs((rows**4).mean() - 3) < 0.1
    assert np.abs(np.corrcoef(rows.T) - np.eye(6)).max() < 0.03
    for shift in (1, 2, 7):
        assert np.abs((rows[shift:, :, None] * rows[:-shift, None, :]).mean(0)).max() < 0.03
    assert len(np.unique(rows)) > 0.99 * rows.size  # as far as float32 has values


def test_uniform_numbers_are_open_and_even() -> None:
    numbers = uniform(np.arange(50_000, dtype=np.uint64), 4)
    assert numbers.min() > 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert np.abs(counts / numbers.size - 0.05).max() < 0.002
