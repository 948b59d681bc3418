from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.stages.advantage import advantages, chunk_rewards

# Rewards, executed actions, and values before every step and after the last one.
THREE_STEPS = np.ones((3, 1)), np.array([1, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0])


def test_three_steps_of_reward_one_truncated_bootstrap_from_the_final_observation() -> None:
    found = advantages(*THREE_STEPS, terminated=False, gamma=0.9, gae_lambda=0.5)
    # Errors 1 + 0.9 * next - value: 1.8, 1.7, 1.6; each takes 0.45 of the advantage after it.
    assert np.allclose(found, [1.8 + 0.45 * (1.7 + 0.45 * 1.6), 1.7 + 0.45 * 1.6, 1.6])


def test_the_same_three_steps_terminated_end_with_nothing() -> None:
    found = advantages(*THREE_STEPS, terminated=True, gamma=0.9, gae_lambda=0.5)
    assert np.allclose(found, [1.8 + 0.45 * (1.7 + 0.45 * -2.0), 1.7 + 0.45 * -2.0, -2.0])


def test_with_lambda_one_it_is_the_return_minus_the_value() -> None:
    values = np.array([0.3, -0.2, 0.7, 5.0])
    found = advantages(np.ones((3, 1)), np.array([1, 1, 1]), values, terminated=False, gamma=0.9, gae_lambda=1.0)
    bootstrapped = 5.0
    for step in (2, 1, 0):
        bootstrapped = 1.0 + 0.9 * bootstrapped
        assert found[step] == pytest.approx(bootstrapped - values[step])


def test_chunks_discount_by_the_actions_that_were_executed() -> None:
    rewards = np.array([[1.0, 2.0, 4.0], [8.0, 99.0, 99.0]])  # the second chunk ended after one action
    total, discount = chunk_rewards(rewards, np.array([3, 1]), 0.5)
    assert total.tolist() == [1.0 + 1.0 + 1.0, 8.0]
    assert discount.tolist() == [0.125, 0.5]
    values = np.array([1.0, 2.0, 3.0])
    cut = advantages(rewards, np.array([3, 1]), values, terminated=False, gamma=0.5, gae_lambda=0.8)
    last = 8.0 + 0.5 * 3.0 - 2.0
    assert np.allclose(cut, [3.0 + 0.125 * 2.0 - 1.0 + 0.125 * 0.8 * last, last])


@given(st.data(), st.integers(1, 12), st.integers(1, 4), st.floats(0.5, 1.0), st.booleans())
@settings(max_examples=50, deadline=None)
def test_with_lambda_one_chunks_do_not_matter(
    data: st.DataObject, length: int, chunk: int, gamma: float, terminated: bool
) -> None:
    """K actions per chunk and one per chunk give the same returns at the chunk boundaries."""
    steps = np.array([chunk] * (length - 1) + [data.draw(st.integers(1, chunk))])
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rewards = rng.standard_normal((length, chunk))
    values = rng.standard_normal(length + 1)
    chunked = advantages(rewards, steps, values, terminated=terminated, gamma=gamma, gae_lambda=1.0) + values[:-1]

    single = np.concatenate([row[:count] for row, count in zip(rewards, steps, strict=True)])[:, None]
    inner = rng.standard_normal(len(single) + 1)  # values inside a chunk cancel out
    inner[-1] = values[-1]
    ones = np.ones(len(single), int)
    returns = advantages(single, ones, inner, terminated=terminated, gamma=gamma, gae_lambda=1.0) + inner[:-1]
    assert np.allclose(chunked, returns[np.concatenate([[0], np.cumsum(steps)[:-1]])])
