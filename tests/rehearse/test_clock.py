"""Virtual time, and cores that threads share fairly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.rehearse.clock import Clock, call


def run(clock: Clock) -> None:
    while clock.advance():
        pass


def test_things_happen_in_the_order_of_their_times() -> None:
    clock, seen = Clock(), list[tuple[str, float]]()
    for name, seconds in (("c", 2.0), ("a", 1.0), ("b", 1.0)):
        clock.after(seconds, lambda name=name: seen.append((name, clock.now_s)))
    run(clock)
    assert seen == [("a", 1.0), ("b", 1.0), ("c", 2.0)]
    assert not clock.advance()


def test_what_happens_may_ask_for_more() -> None:
    clock, seen = Clock(), list[float]()

    def again() -> None:
        seen.append(clock.now_s)
        if len(seen) < 3:
            clock.after(0.5, again)

    clock.after(0.0, again)
    run(clock)
    assert seen == [0.0, 0.5, 1.0]


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=8), st.integers(1, 4))
def test_threads_share_cores_evenly(work_s: list[float], count: int) -> None:
    """All begin at once. The last one is done when all work is, but never before its own."""
    clock, ends = Clock(), dict[int, float]()
    cores = clock.cores(count)
    for index, core_s in enumerate(work_s):
        cores.run(core_s, lambda index=index: ends.setdefault(index, clock.now_s))
    run(clock)
    assert len(ends) == len(work_s)
    assert cores.used_s == pytest.approx(sum(work_s))
    last_s = max(ends.values())
    assert last_s >= max(max(work_s), sum(work_s) / count) * (1 - 1e-9)
    assert last_s <= sum(work_s) * (1 + 1e-9)
    by_work = sorted(range(len(work_s)), key=lambda index: work_s[index])
    assert [ends[index] for index in by_work] == sorted(ends.values())


def test_who_comes_later_slows_the_others_from_then_on() -> None:
    clock, ends = Clock(), dict[str, float]()
    cores = clock.cores(1)
    cores.run(2.0, lambda: ends.setdefault("first", clock.now_s))
    clock.after(1.0, lambda: cores.run(0.5, lambda: ends.setdefault("second", clock.now_s)))
    run(clock)
    assert ends == {"second": pytest.approx(2.0), "first": pytest.approx(2.5)}


@pytest.mark.parametrize(
    ("seconds", "core_s", "count", "end_s"),
    [
        (1.0, 0.2, 1, 1.0),  # a device does the rest
        (1.0, 1.0, 1, 1.0),
        (1.0, 4.0, 4, 1.0),  # four threads
        (1.0, 4.0, 2, 2.0),  # that share two cores
        (1.0, 0.0, 1, 1.0),
    ],
)
def test_a_call_takes_its_time_or_longer(seconds: float, core_s: float, count: int, end_s: float) -> None:
    clock, ends = Clock(), list[float]()
    call(clock, clock.cores(count), seconds=seconds, core_s=core_s, done=lambda: ends.append(clock.now_s))
    run(clock)
    assert ends == [pytest.approx(end_s)]


def test_only_the_part_on_the_cores_is_slowed() -> None:
    clock, ends = Clock(), list[float]()
    cores = clock.cores(1)
    cores.run(10.0, lambda: None)
    call(clock, cores, seconds=1.0, core_s=0.2, done=lambda: ends.append(clock.now_s))
    run(clock)
    assert ends == [pytest.approx(2 * 0.2 + 0.8)]
