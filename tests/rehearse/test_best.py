"""Every schedule at its best: no choice that it allows is better, none is above the roofline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.errors import PlanError
from ebrl.graph.schedules import MECHANISMS, SCHEDULES, Schedule
from ebrl.planner.problem import Allocation, Device, Node, Problem
from ebrl.planner.roofline import roofline
from ebrl.rehearse.best import best
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.rehearse.truth import TrueCosts

from ..planner.machines import chunks, on_cores, on_devices, straight

ALL: dict[str, Schedule] = {
    **SCHEDULES,
    **{f"ebrl without {name}": SCHEDULES["ebrl"].without(name) for name in MECHANISMS},
}
NOISE = {"simulation_sigma": 0.2, "generation_sigma": 0.1, "training_sigma": 0.1}
_CHANCE = 1.03
"""What short rehearsals cannot tell apart."""
SMALL = {"environments": 8, "iteration": 32, "window": 4}


def rendering() -> dict[str, Any]:
    simulation = chunks(0.3)
    simulation.tables.update(straight("gpu", 0.01, 0.05).tables)
    return {"simulation": simulation}


def rate(problem: Problem, allocation: Allocation, schedule: Schedule, truth: TrueCosts, steps: int = 12) -> float:
    rehearsal = Rehearsal(problem, allocation, truth, schedule=schedule)
    return throughput(rehearsal.run(steps)[4:])


def uuids(shares: Any) -> list[str]:
    return sorted(shares)


def divisions(devices: int, batches: tuple[int, ...]) -> Iterator[Allocation]:
    names = [f"GPU-{number}" for number in range(devices)]
    for count in range(1, devices):
        for batch in batches:
            yield Allocation(
                generation=dict.fromkeys(names[count:], 100), training=dict.fromkeys(names[:count], 100), batch=batch
            )


@pytest.mark.parametrize("name", ["async", "disaggregated", "ebrl without allocation"])
@pytest.mark.parametrize("dearest", ["generation", "training"])
def test_no_division_of_devices_is_better(name: str, dearest: str) -> None:
    problem = on_devices(4, cores=8, **SMALL, **{dearest: straight("gpu", 0.5, 0.1)})
    truth, schedule = TrueCosts.of(problem, **NOISE), ALL[name]
    found = rate(problem, best(problem, truth, schedule), schedule, truth)
    for other in divisions(4, (1, 2, 4, 8)):
        even = attrs.evolve(other, batch=-(-8 // len(other.generation))) if schedule.step_barrier else other
        assert rate(problem, even, schedule, truth) <= found * _CHANCE


@pytest.mark.parametrize("name", ["async", "disaggregated"])
def test_more_devices_for_what_is_dearer(name: str) -> None:
    generating = on_devices(4, cores=8, **SMALL, generation=straight("gpu", 0.1, 0.5))
    training = on_devices(4, cores=8, **SMALL, training=straight("gpu", 0.1, 0.5))
    for problem, count in ((generating, 3), (training, 1)):
        assert len(best(problem, TrueCosts.of(problem), ALL[name]).generation) == count


@pytest.mark.parametrize("name", ["async", "disaggregated", "ebrl without allocation"])
def test_devices_of_their_own_need_two(name: str) -> None:
    problem = on_devices(1)
    with pytest.raises(PlanError, match="devices of their own for rollout and training need two") as caught:
        best(problem, TrueCosts.of(problem), ALL[name])
    assert caught.value.hint == "name more GPUs"


def test_halves_need_two() -> None:
    problem = on_devices(1, **rendering())
    with pytest.raises(PlanError, match="a half of the devices each for simulation and generation needs two"):
        best(problem, TrueCosts.of(problem), ALL["hybrid"])


@pytest.mark.parametrize("name", ["ebrl", "sync", "colocated"])
def test_one_device_is_enough_where_stages_share_it(name: str) -> None:
    problem = on_devices(1, **SMALL)
    found = best(problem, TrueCosts.of(problem), ALL[name])
    assert uuids(found.generation) == uuids(found.training) == ["GPU-0"]


def test_in_turn_every_stage_has_everything() -> None:
    problem = on_devices(3, **SMALL, **rendering())
    found = best(problem, TrueCosts.of(problem), ALL["colocated"])
    assert found.simulation == found.generation == found.training == dict.fromkeys(("GPU-0", "GPU-1", "GPU-2"), 100)
    assert found.batch == 3


@pytest.mark.parametrize(("devices", "simulation", "generation"), [(2, 1, 1), (3, 1, 2), (4, 2, 2)])
def test_halves(devices: int, simulation: int, generation: int) -> None:
    problem = on_devices(devices, **SMALL, **rendering())
    found = best(problem, TrueCosts.of(problem), ALL["hybrid"])
    assert (len(found.simulation), len(found.generation), len(found.training)) == (simulation, generation, devices)
    assert not set(found.simulation) & set(found.generation)


def test_where_simulators_need_no_device_generation_has_both_halves() -> None:
    problem = on_devices(4, **SMALL)
    found = best(problem, TrueCosts.of(problem), ALL["hybrid"])
    assert found.simulation == {} and len(found.generation) == len(found.training) == 4


def test_who_takes_turns_divides_nothing() -> None:
    """Half of the SMs is less than all of them in turn, where nobody is disturbed by that."""
    problem = on_devices(1, **SMALL)
    truth = TrueCosts.of(problem)
    found = best(problem, truth, ALL["sync"])
    assert found.generation == found.training == {"GPU-0": 100}


def test_who_takes_turns_needs_memory_for_all() -> None:
    devices = tuple(Device(uuid=f"GPU-{number}", model="gpu", memory_mib=10.0) for number in range(2))
    for needed_mib, together in ((5.0, True), (6.0, False)):
        problem = on_devices(
            nodes=(Node(cores=tuple(range(8)), devices=devices),),
            **SMALL,
            generation=straight("gpu", 0.1, 0.02, memory_mib=needed_mib),
            training=straight("gpu", 0.3, 0.024, memory_mib=needed_mib),
        )
        found = best(problem, TrueCosts.of(problem), ALL["sync"])
        assert bool(set(found.generation) & set(found.training)) == together


@pytest.mark.parametrize("name", ALL)
def test_stages_get_no_device_that_they_cannot_use(name: str) -> None:
    """Two render, two generate and train."""
    devices = tuple(
        Device(uuid=f"GPU-{number}", model="gpu" if number < 2 else "rt", rt_cores=number >= 2) for number in range(4)
    )
    simulation = chunks(0.3)
    simulation.tables.update(straight("rt", 0.01, 0.05).tables)
    node = Node(cores=tuple(range(8)), devices=devices)
    problem = on_devices(4, **SMALL, nodes=(node,), simulation=simulation, rt_cores=True)
    truth = TrueCosts.of(problem)
    found = best(problem, truth, ALL[name])
    assert uuids(found.simulation) == ["GPU-2", "GPU-3"]
    assert {*found.generation, *found.training} == {"GPU-0", "GPU-1"}
    assert rate(problem, found, ALL[name], truth) > 0


def test_a_machine_without_devices() -> None:
    problem = on_cores(4, window=8)
    for schedule in ALL.values():
        found = best(problem, TrueCosts.of(problem), schedule)
        assert not found.generation and not found.training
        assert found.batch == 8 // schedule.groups or not schedule.step_barrier


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small ones in which one stage may be ten times as dear as another one."""
    cost = st.floats(0.01, 0.1)
    training = straight("gpu", draw(cost), draw(cost), host_s=0.001)
    changes = rendering() if draw(st.booleans()) else {"simulation": chunks(draw(st.floats(0.05, 0.5)))}
    return on_devices(
        draw(st.integers(2, 3)),
        cores=draw(st.integers(2, 8)),
        environments=8,
        iteration=draw(st.sampled_from((32, 64))),
        window=4,
        generation=straight("gpu", draw(cost), draw(st.floats(0.001, 0.05)), host_s=0.001),
        training=training,
        **changes,
    )


@settings(max_examples=25, deadline=None)
@given(problems(), st.sampled_from(sorted(ALL)), st.sampled_from((0.0, 0.2)))
def test_no_schedule_gets_above_the_roofline(problem: Problem, name: str, sigma: float) -> None:
    truth = TrueCosts.of(
        problem, simulation_sigma=sigma, generation_sigma=sigma, training_sigma=sigma, episode=9, reset_s=0.3
    )
    told = truth.told(problem)
    found = rate(told, best(told, truth, ALL[name]), ALL[name], truth, 24)
    # Means hold in the long run: so few batches may be lucky by some percent.
    assert found <= roofline(told).rate * (1.05 if sigma else 1.01)


@pytest.mark.parametrize("dearest", ["simulation", "generation", "training"])
def test_no_baseline_is_faster_than_ebrl(dearest: str) -> None:
    """Where one stage is three times as dear as the others, with four environments per core. That it holds for every
    problem is not claimed: where latency binds, halved SMs can cost more than barriers."""
    dear = {name: 3.0 if name == dearest else 1.0 for name in ("simulation", "generation", "training")}
    problem = on_devices(
        2,
        cores=4,
        environments=16,
        iteration=128,
        window=4,
        simulation=chunks(0.08 * dear["simulation"]),
        generation=straight("gpu", 0.05, 0.02 * dear["generation"], host_s=0.001),
        training=straight("gpu", 0.2, 0.02 * dear["training"], host_s=0.001),
    )
    truth = TrueCosts.of(problem, **NOISE)
    rates = {name: rate(problem, best(problem, truth, rules), rules, truth) for name, rules in SCHEDULES.items()}
    assert rates["ebrl"] >= max(rates.values()) / _CHANCE
