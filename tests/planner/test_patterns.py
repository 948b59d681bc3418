from __future__ import annotations

from math import comb

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.planner.costs import StageCosts
from ebrl.planner.patterns import MOST, Pattern, counts, patterns, shares
from ebrl.planner.problem import Device, Problem

from .machines import on_devices, straight

GPU = Device(uuid="GPU-0", model="gpu", memory_mib=1000)


def with_memory(training_mib: float, generation_mib: float) -> Problem:
    return attrs.evolve(
        on_devices(),
        training=straight("gpu", 0.3, 0.02, memory_mib=training_mib),
        generation=straight("gpu", 0.1, 0.02, memory_mib=generation_mib),
    )


def test_a_device_trains_generates_both_or_nothing() -> None:
    found = patterns(on_devices(), GPU, training=70, generation=True, batch=8)
    assert found == [Pattern(0, 0, 0), Pattern(0, 100, 0), Pattern(70, 0, 0), Pattern(70, 30, 0)]


def test_who_may_not_use_it_does_not() -> None:
    assert patterns(on_devices(), GPU, training=0, generation=False, batch=8) == [Pattern(0, 0, 0)]
    other = attrs.evolve(GPU, model="unknown")
    assert patterns(on_devices(), other, training=50, generation=True, batch=8) == [Pattern(0, 0, 0)]


def test_training_on_the_whole_device_leaves_no_room_beside_it() -> None:
    found = patterns(on_devices(), GPU, training=100, generation=True, batch=8)
    assert Pattern(100, 0, 0) in found
    assert not any(pattern.training and pattern.generation for pattern in found)


@pytest.mark.parametrize(("training_mib", "generation_mib", "both"), [(500, 500, True), (600, 500, False)])
def test_what_does_not_fit_into_memory_is_left_out(training_mib: float, generation_mib: float, both: bool) -> None:
    found = patterns(with_memory(training_mib, generation_mib), GPU, training=50, generation=True, batch=8)
    assert (Pattern(50, 50, 0) in found) is both
    assert {Pattern(50, 0, 0), Pattern(0, 100, 0)} <= set(found)


def test_simulators_that_ray_trace_need_devices_that_can() -> None:
    renders = {**on_devices().simulation.tables, **straight("gpu", 0.0, 0.1).tables}
    problem = attrs.evolve(on_devices(), simulation=StageCosts(tables=renders), rt_cores=True, step_percent=50)
    blind = attrs.evolve(GPU, rt_cores=False)
    assert any(p.simulation for p in patterns(problem, GPU, training=0, generation=True, batch=8))
    assert not any(p.simulation for p in patterns(problem, blind, training=0, generation=True, batch=8))
    assert patterns(problem, GPU, training=0, generation=True, batch=8) == [
        Pattern(0, 0, 0), Pattern(0, 0, 100), Pattern(0, 100, 0), Pattern(0, 50, 50)
    ]  # fmt: skip


@given(st.integers(1, 5), st.integers(1, 12))
def test_all_ways_to_give_patterns_to_devices(kinds: int, devices: int) -> None:
    rows, complete = counts(kinds, devices)
    assert complete
    assert len(rows) == comb(devices + kinds - 1, kinds - 1) == len({tuple(row) for row in rows.tolist()})
    assert (rows.sum(axis=1) == devices).all() and (rows >= 0).all()


def test_of_too_many_ways_those_with_two_patterns_are_left() -> None:
    assert comb(16 + 11, 11) > MOST
    rows, complete = counts(12, 16)
    assert not complete
    assert (rows.sum(axis=1) == 16).all()
    assert ((rows > 0).sum(axis=1) <= 2).all()
    assert len({tuple(row) for row in rows.tolist()}) == len(rows) == 12 + comb(12, 2) * 15


def test_devices_are_handed_out_in_order() -> None:
    devices = on_devices(3).devices
    chosen = [Pattern(100, 0, 0), Pattern(0, 100, 0)]
    given_ = list(shares(chosen, [1, 2], devices))
    assert given_ == [("GPU-0", chosen[0]), ("GPU-1", chosen[1]), ("GPU-2", chosen[1])]
