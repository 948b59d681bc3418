from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebrl.schedule.barriers import StepBarrier


@given(active=st.sets(st.integers(0, 7), min_size=1), data=st.data())
def test_nobody_leaves_before_the_last_has_arrived(active: set[int], data: st.DataObject) -> None:
    barrier = StepBarrier()
    for _ in range(2):
        arrivals = data.draw(st.permutations(sorted(active)))
        for environment in arrivals:
            assert barrier.release(active) == []
            barrier.arrived(environment)
        assert barrier.release(active) == sorted(active)
    assert barrier.release(active) == []


@given(active=st.sets(st.integers(0, 7), min_size=2))
def test_nobody_waits_for_the_removed(active: set[int]) -> None:
    barrier = StepBarrier()
    gone, *others = sorted(active)
    for environment in others:
        barrier.arrived(environment)
    assert barrier.release(active) == []
    barrier.remove(gone)
    assert barrier.release(others) == others


def test_the_removed_are_not_released() -> None:
    barrier = StepBarrier()
    barrier.arrived(0)
    barrier.arrived(1)
    barrier.remove(1)
    assert barrier.release([0]) == [0]


def test_who_is_not_active_any_more_leaves_with_the_others() -> None:
    barrier = StepBarrier()
    barrier.arrived(0)
    barrier.arrived(1)
    assert barrier.release([0]) == [0, 1]
    assert barrier.release([]) == []
