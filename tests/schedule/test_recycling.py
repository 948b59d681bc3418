from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.schedule.recycling import GROWTH, SHARE, Recycling, fair_share_mib

sizes = st.lists(st.floats(1, 10_000), min_size=1, max_size=20)


def test_a_leak_is_stopped_at_the_limit() -> None:
    """5 MB per reset: case 20."""
    recycling = Recycling(limit_mib=200)
    size, sawtooth = 100.0, []
    for _ in range(60):
        recycling.measured(3, size)
        sawtooth.append(size)
        if recycling.due(3):
            recycling.replaced(3, on_purpose=True)
            size = 100.0
        else:
            size += 5.0
    assert max(sawtooth) == 205.0
    assert recycling.recycled == 60 // 22


@given(sizes=sizes, limit=st.floats(1, 10_000))
def test_never_below_the_limit_and_never_without_growth(sizes: list[float], limit: float) -> None:
    recycling = Recycling(limit_mib=limit)
    for size in sizes:
        recycling.measured(0, size)
        assert recycling.due(0) == (size > limit and size > GROWTH * sizes[0])


def test_a_simulator_that_needs_more_than_its_share_is_not_replaced_again_and_again() -> None:
    recycling = Recycling(limit_mib=200)
    for _ in range(5):
        recycling.measured(0, 500.0)
        assert not recycling.due(0)
    recycling.measured(0, 601.0)
    assert recycling.due(0)


def test_environments_have_pasts_of_their_own() -> None:
    recycling = Recycling(limit_mib=200)
    for environment, size in ((0, 100.0), (1, 100.0), (0, 300.0), (1, 150.0)):
        recycling.measured(environment, size)
    assert [recycling.due(environment) for environment in (0, 1, 2)] == [True, False, False]
    assert (recycling.resident_mib, recycling.largest_mib) == (450, 300)
    recycling.replaced(0, on_purpose=True)
    assert (recycling.resident_mib, recycling.largest_mib, recycling.recycled) == (150, 150, 1)
    assert not recycling.due(0)
    recycling.measured(0, 190.0)  # of the new process: what it needs, not growth of the old one
    recycling.measured(0, 201.0)
    assert not recycling.due(0)
    recycling.measured(0, 229.0)
    assert recycling.due(0)


def test_a_crash_is_no_recycling() -> None:
    recycling = Recycling(limit_mib=200)
    recycling.measured(0, 300.0)
    recycling.replaced(0, on_purpose=False)
    assert recycling.recycled == 0
    assert recycling.largest_mib == 0


def test_the_fair_share() -> None:
    assert fair_share_mib(10_000, 8) == pytest.approx(SHARE * 1250)
    assert fair_share_mib(10_000, 0) == pytest.approx(SHARE * 10_000)
    assert math.isinf(fair_share_mib(None, 8))
