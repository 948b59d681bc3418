from __future__ import annotations

import numpy as np

from ebrl.backends.policies.normalization import RunningNormalization


def test_before_any_data_it_is_the_identity() -> None:
    normalization = RunningNormalization(2)
    normalization.update(np.empty((0, 2), np.float32))
    assert normalization.shift.tolist() == [0, 0]
    assert normalization.scale.tolist() == [1, 1]


def test_statistics_do_not_depend_on_how_the_data_was_cut() -> None:
    data = (np.random.default_rng(0).standard_normal((1000, 3)) * [1, 20, 0.5] + [0, -3, 100]).astype(np.float32)
    normalization = RunningNormalization(3)
    for part in np.split(data, [1, 2, 400, 999]):
        normalization.update(part)
    assert np.allclose(normalization.mean, data.astype(np.float64).mean(0), rtol=1e-9)
    assert np.allclose(normalization.variance, data.astype(np.float64).var(0), rtol=1e-9)
    normalized = (data - normalization.shift) * normalization.scale
    assert np.allclose(normalized.mean(0), 0, atol=1e-3)
    assert np.allclose(normalized.std(0), 1, atol=1e-3)


def test_a_feature_that_stood_still_is_not_blown_up() -> None:
    normalization = RunningNormalization(1, smallest_deviation=0.1)
    normalization.update(np.full((100, 1), 0.82, np.float32))
    assert np.allclose(normalization.scale, 10.0)


def test_fixed_features_keep_their_zero_and_their_factor() -> None:
    normalization = RunningNormalization(3, factors=np.array([np.nan, 50.0, np.nan]))
    assert normalization.scale.tolist() == [1, 50, 1]
    normalization.update(np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32) + 5)
    assert normalization.shift[1] == 0
    assert normalization.scale[1] == 50
    assert normalization.shift[0] > 4


def test_arrays_restore_it_exactly() -> None:
    one, other = RunningNormalization(2), RunningNormalization(2)
    one.update(np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32))
    other.load(one.arrays())
    more = np.random.default_rng(1).standard_normal((50, 2)).astype(np.float32)
    one.update(more)
    other.update(more)
    assert all(np.array_equal(array, other.arrays()[name]) for name, array in one.arrays().items())
    assert np.array_equal(one.scale, other.scale)
