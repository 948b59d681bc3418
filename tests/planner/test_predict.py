"""The rate of an allocation, by hand where that is possible."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.predict import core_limits, predict, simulation_work, soft_minimum
from ebrl.planner.problem import Allocation, Core, Node

from .machines import chunks, on_cores, on_devices, straight

BATCH = Allocation(batch=8, generation={"GPU-0": 100}, training={"GPU-1": 100})


def test_cores_that_all_stages_share() -> None:
    found = predict(on_cores(2), Allocation(batch=8))
    assert found.bottleneck == "cores of simulation + generation + training"
    assert found.limits[found.bottleneck] == pytest.approx(2 / (0.010 + 0.001 / 8 + 0.001))
    assert found.limits["generation"] == pytest.approx(8000)
    assert found.rate == pytest.approx(found.limits[found.bottleneck], rel=0.01)


def test_other_stages_take_from_the_same_cores() -> None:
    found = predict(on_cores(2, others_core_s=0.002), Allocation(batch=8))
    assert found.bottleneck == "cores of simulation + generation + training + others"
    assert found.limits[found.bottleneck] == pytest.approx(2 / (0.010 + 0.001 / 8 + 0.001 + 0.002))


def test_training_on_crowded_cores() -> None:
    """Two simulate while one trains: on two cores it gets two thirds of one, until the rollout is done."""
    problem = on_cores(2, training=straight(CPU, 0.0, 0.1))
    found = predict(problem, Allocation(batch=8))
    assert found.bottleneck == "training"
    assert found.rate == pytest.approx(1 / (0.1 + (0.010 + 0.001 / 8) / 4), rel=0.01)
    apart = {"simulation": frozenset({("", 0)}), "training": frozenset({("", 1)})}
    assert predict(problem, Allocation(batch=8, cores=apart)).limits["training"] == pytest.approx(10.0)


def test_environments_that_wait_for_their_batch() -> None:
    """8 environments, of which 8 wait in a batch of a device that takes 0.26 s for it, and some for the one before."""
    found = predict(on_devices(2, cores=64, environments=8, batches=(8,)), BATCH)
    assert 8 / (0.3 + 0.26 + 0.13) < found.limits["environments"] < 8 / (0.3 + 0.26)


def test_devices_that_train_together_wait_for_the_slowest() -> None:
    problem = on_devices(4, cores=512, environments=4000)
    pair = predict(problem, attrs.evolve(BATCH, batch=64, training={"GPU-1": 100, "GPU-2": 50}))
    slowest_s = (0.3 + 0.024 * 128) * 2**0.7
    assert pair.limits["training"] == pytest.approx(256 / slowest_s)


def test_barriers_add_the_times_up() -> None:
    free, taking_turns = (predict(on_cores(2, barriers=barriers), Allocation(batch=8)) for barriers in (False, True))
    fill_s = 0.010 + 0.001  # the first chunks wait for their actions, the last ones for nothing
    rollout_s = 64 * (0.010 + 0.001 / 8) / 2 + fill_s
    assert taking_turns.rate == pytest.approx(64 / (rollout_s + 64 * 0.001), rel=0.01)
    assert taking_turns.rate < free.rate


def test_staleness_bounds_what_is_under_way() -> None:
    """One batch rolls out while one trains, each as long as the other: more at once would help."""
    even = on_devices(2, cores=16, environments=64, training=straight("gpu", 0.3, 4.8 / 256))
    rates = [predict(attrs.evolve(even, max_staleness=most), BATCH).rate for most in (0, 1, 3)]
    assert rates[0] < 0.6 * rates[1] < rates[1] < rates[2]


def test_limits_that_meet_cost_a_little() -> None:
    assert soft_minimum([10.0]) == soft_minimum([10.0, math.inf]) == 10.0
    assert soft_minimum([10.0, 10.0]) == pytest.approx(9.58, abs=0.01)
    assert soft_minimum([10.0, 12.5]) == pytest.approx(10.0, rel=0.002)
    assert soft_minimum([10.0, 0.0]) == 0.0


def test_nothing_to_run_on_is_a_rate_of_zero() -> None:
    assert predict(on_devices(), Allocation()).rate == 0.0
    assert predict(on_devices(), Allocation(generation={"GPU-0": 100})).rate == 0.0


def test_cores_that_disturb_each_other() -> None:
    """Two cores simulate 1.6 times as fast as one; more were not measured and are taken to be worth as much."""
    table = CostTable(
        points=(Point(quota=1, batch=1, seconds=0.01, core_s=0.01), Point(quota=2, batch=1, seconds=0.00625, core_s=0))
    )
    assert simulation_work(table, 1) == pytest.approx(0.01)
    assert simulation_work(table, 2) == simulation_work(table, 8) == pytest.approx(0.0125)
    assert simulation_work(None, 3) == 0.0


def test_nodes_without_devices_simulate_only() -> None:
    problem = on_devices(2, cores=8, environments=2000)
    wider = attrs.evolve(problem, nodes=(*problem.nodes, Node(name="b", cores=tuple(range(8)))))
    allocation = attrs.evolve(BATCH, batch=64)
    cores = "cores of simulation"
    assert predict(problem, allocation).limits[cores] == pytest.approx(8 / 0.3)
    assert predict(wider, allocation).limits[cores] == pytest.approx(16 / 0.3)


def test_every_stage_says_how_busy_it_is() -> None:
    found = predict(on_cores(2), Allocation(batch=8))
    assert found.busy == pytest.approx(
        {
            "simulation": found.rate * 0.010 / 2,
            "generation": found.rate / 8000,
            "training": found.rate / found.limits["training"],
        }
    )


@given(st.integers(1, 4), st.floats(0.001, 0.1), st.floats(1.1, 3.0), st.sampled_from(["simulation", "generation"]))
def test_what_becomes_dearer_is_never_faster(cores: int, seconds: float, times: float, stage: str) -> None:
    problem = on_cores(cores, simulation=chunks(seconds))
    dearer = attrs.evolve(problem, **{stage: getattr(problem, stage).corrected(times)})
    allocation = Allocation(batch=4)
    assert predict(dearer, allocation).rate <= predict(problem, allocation).rate * (1 + 1e-9)


loads = st.dictionaries(
    st.sampled_from(["simulation", "generation", "training"]),
    st.tuples(st.frozensets(st.integers(0, 3), min_size=1), st.floats(0.01, 1.0)),
    min_size=1,
)


@given(loads)
def test_the_tightest_set_of_loads_bounds_the_rate(given_: dict[str, tuple[frozenset[int], float]]) -> None:
    usable: dict[str, frozenset[Core]] = {
        name: frozenset(("", core) for core in cores) for name, (cores, _) in given_.items()
    }
    (rate,) = core_limits(usable, {name: work for name, (_, work) in given_.items()}).values()
    for cores, work in given_.values():
        assert rate <= len(cores) / work * (1 + 1e-9)
    everyone = len(frozenset().union(*usable.values()))
    assert rate <= everyone / sum(work for _, work in given_.values()) * (1 + 1e-9)


def test_loads_without_work_bound_nothing() -> None:
    assert core_limits({"simulation": frozenset({("", 0)})}, {"simulation": 0.0}) == {}


def test_a_stage_without_costs_anywhere() -> None:
    problem = on_cores(2, training=StageCosts(tables={"gpu": on_devices().training.tables["gpu"]}))
    assert problem.training.on(CPU) is None
    assert predict(problem, Allocation(batch=8)).rate == 0.0
