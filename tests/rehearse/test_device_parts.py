"""What simulators do on devices: oldest first, on whichever share is free."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.clock import Clock
from ebrl.rehearse.device_parts import DeviceParts
from ebrl.rehearse.truth import Draws, TrueCosts

from ..planner.machines import chunks, on_devices, straight


def rendering() -> Problem:
    simulation = chunks(0.3)
    simulation.tables.update(straight("gpu", 1.0, 0.0).tables)
    return on_devices(2, simulation=simulation)


def begun(shares: dict[str, int], count: int) -> tuple[Clock, DeviceParts, list[tuple[int, float]]]:
    """`count` parts at once; (number, end in s) of those that are over."""
    clock, ends, problem = Clock(), list[tuple[int, float]](), rendering()
    parts = DeviceParts(clock, Draws(0, TrueCosts.of(problem)))
    parts.use(problem, Allocation(simulation=shares))

    def over(number: int) -> Callable[[], None]:
        return lambda: ends.append((number, clock.now_s))

    for number in range(count):
        assert parts.begin(over(number)) == bool(shares)
    return clock, parts, ends


def test_without_a_share_nothing_happens() -> None:
    clock, parts, ends = begun({}, 2)
    assert (parts.shares, parts.busy, parts.queued) == (0, 0, 0)
    assert not clock.advance() and ends == []


def test_one_after_the_other_on_each_share() -> None:
    clock, parts, ends = begun({"GPU-0": 100, "GPU-1": 100}, 5)
    assert (parts.shares, parts.busy, parts.queued) == (2, 2, 5)
    assert clock.advance() and (parts.busy, parts.queued) == (2, 4)
    while clock.advance():
        pass
    assert ends == [(number, pytest.approx(1.0 + number // 2)) for number in range(5)]
    assert (parts.busy, parts.queued) == (0, 0)


def test_a_smaller_share_takes_longer() -> None:
    clock, _, ends = begun({"GPU-0": 50}, 2)
    while clock.advance():
        pass
    assert [end_s for _, end_s in ends] == pytest.approx([2**0.7, 2 * 2**0.7])


def test_a_fast_share_takes_more() -> None:
    clock, _, ends = begun({"GPU-0": 25, "GPU-1": 100}, 4)
    while clock.advance():
        pass
    assert sorted(end_s for _, end_s in ends) == pytest.approx([1.0, 2.0, 4**0.7, 3.0])


def test_who_is_over_may_begin_again() -> None:
    """A share that comes free is taken by who waits, before whoever has just left it."""
    clock, order, problem = Clock(), list[str](), rendering()
    parts = DeviceParts(clock, Draws(0, TrueCosts.of(problem)))
    parts.use(problem, Allocation(simulation={"GPU-0": 100}))
    parts.begin(lambda: (order.append("one"), parts.begin(lambda: order.append("one again"))))  # type: ignore[arg-type,return-value]
    parts.begin(lambda: order.append("other"))
    while clock.advance():
        pass
    assert order == ["one", "other", "one again"] and clock.now_s == pytest.approx(3.0)
