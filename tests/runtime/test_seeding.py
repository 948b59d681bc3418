from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebrl.runtime.seeding import chunk_seed, reset_seed

runs = st.integers(0, 2**63 - 1)
counts = st.integers(0, 10_000)


@given(run=runs, environment=counts, episode=counts)
def test_seeds_fit_where_they_go(run: int, environment: int, episode: int) -> None:
    seed = reset_seed(run, "simulate", environment, episode)
    assert 0 <= seed < 2**31
    assert 0 <= chunk_seed(run, seed, environment, episode, 0) < 2**64
    assert seed == reset_seed(run, "simulate", environment, episode)


def test_everything_that_differs_makes_a_difference() -> None:
    resets = {
        reset_seed(run, purpose, environment, episode)
        for run in (0, 1, 2)
        for purpose in ("simulate", "evaluate")
        for environment in range(8)
        for episode in range(8)
    }
    assert len(resets) == 3 * 2 * 8 * 8
    chunks = {
        chunk_seed(run, purpose, environment, episode, chunk)
        for run in (0, 1, 2)
        for purpose in (0, 1)
        for environment in range(4)
        for episode in range(4)
        for chunk in range(4)
    }
    assert len(chunks) == 3 * 2 * 4 * 4 * 4


def test_seeds_are_the_same_everywhere() -> None:
    """A change of these numbers would change the results of every run."""
    assert reset_seed(0, "simulate", 0, 0) == 578293450
    assert reset_seed(1, "evaluate", 3, 7) == 982813397
    assert chunk_seed(0, 1, 2, 3, 4) == 2821693476514209883
