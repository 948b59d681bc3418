"""The roofline: what it says of small problems, and that nothing gets above it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.planner.allocate import allocate
from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.predict import predict
from ebrl.planner.problem import SIMULATION, Allocation, Device, Node, Problem
from ebrl.planner.roofline import roofline
from ebrl.rehearse.rehearsal import Rehearsal, throughput
from ebrl.rehearse.truth import TrueCosts

from .machines import chunks, on_cores, on_devices, straight

times = st.floats(0.001, 1.0)


def test_on_cores_alone_it_is_their_number_over_all_work() -> None:
    found = roofline(on_cores(cores=4, others_core_s=0.002))
    work = 0.010 + 0.001 / 8 + 0.001 + 0.002
    assert found.rate == pytest.approx(4 / work)
    assert found.binding == "cores of simulation + generation + training + others"


def test_a_core_quota_is_a_limit() -> None:
    quota = {SIMULATION: frozenset({("", 0)})}
    assert roofline(on_cores(cores=4, core_quotas=quota)).rate == pytest.approx(100.0)


def test_devices_of_one_model_share_their_time() -> None:
    problem = on_devices(devices=4, cores=1000, environments=512, iteration=4096)
    found = roofline(problem)
    least = 0.1**0.3 * 0.4  # 10 % of the SMs are 0.1 ** 0.7 as fast as all, below a quota of 25 in proportion
    assert found.binding == "devices"
    assert found.rate < 4 / ((0.02 + 0.024) * least)
    assert found.rate > 4 / ((0.02 + 0.024) + (0.1 / 512 + 0.3 / 1024))


def test_few_environments_are_a_limit() -> None:
    found = roofline(on_devices(environments=2))
    assert (found.binding, found.rate) == ("environments", pytest.approx(2 / (0.3 + 0.12)))


def test_an_iteration_trains_no_faster_than_on_all_devices() -> None:
    slow = straight("gpu", 10.0, 0.0)
    found = roofline(on_devices(training=slow, cores=1000, environments=512))
    assert found.limits["training"] == pytest.approx(256 / 10.0)


@pytest.mark.parametrize("stage", ["generation", "training"])
def test_a_stage_without_a_place_to_run(stage: str) -> None:
    found = roofline(on_cores(**{stage: straight("gpu", 0.1, 0.1)}))
    assert found.rate == 0.0


def test_simulators_may_need_devices_that_trace_rays() -> None:
    rendering = StageCosts(tables={**chunks(0.1).tables, **straight("gpu", 0.0, 0.05).tables})
    problem = on_devices(simulation=rendering, rt_cores=True, cores=64)
    assert roofline(problem).limits["devices"] > 0
    blind = tuple(attrs.evolve(device, rt_cores=False) for device in problem.devices)
    assert roofline(attrs.evolve(problem, nodes=(Node(cores=(0,), devices=blind),))).limits["devices"] == 0.0
    mixed = (*blind[1:], problem.devices[0])
    found = roofline(attrs.evolve(problem, nodes=(Node(cores=tuple(range(64)), devices=mixed),)))
    assert 0.0 < found.limits["devices"] < roofline(problem).limits["devices"]


def test_devices_that_each_do_what_they_are_best_at() -> None:
    def costs(one_s: float, two_s: float) -> StageCosts:
        """Speed is in proportion to the share."""
        times = {"one": one_s, "two": two_s}
        points = {model: Point(quota=100, batch=1, seconds=seconds, core_s=0.0) for model, seconds in times.items()}
        return StageCosts(tables={model: CostTable(points=(point,)) for model, point in points.items()})

    def rate(ones: int, twos: int) -> float:
        models = ["one"] * ones + ["two"] * twos
        devices = tuple(Device(uuid=f"GPU-{number}", model=model) for number, model in enumerate(models))
        node = Node(cores=tuple(range(1000)), devices=devices)
        problem = on_devices(
            generation=costs(1.0, 3.0), training=costs(2.0, 1.0), environments=64, iteration=1, simulation=chunks(1e-3)
        )
        return roofline(attrs.evolve(problem, nodes=(node,), batches=(1,))).limits["devices"]

    assert rate(1, 1) == pytest.approx(1.0)
    # With 3 of the second, one of them trains all that the others generate together with the first: x = 1 + (3 - x) / 3
    assert rate(1, 3) == pytest.approx(1.5)


@st.composite
def tables(draw: st.DrawFn, quotas: tuple[int, ...]) -> CostTable:
    """Anything that could be measured, noise and all; but no call needs more CPU time than there is while it lasts."""
    batches = draw(st.sets(st.sampled_from((1, 4, 16, 64)), min_size=1, max_size=3))
    seconds = {(quota, batch): draw(times) for quota in quotas for batch in batches}
    core_s = draw(st.floats(0.0, 0.25)) * min(seconds.values())
    points = [Point(quota=quota, batch=batch, seconds=took, core_s=core_s) for (quota, batch), took in seconds.items()]
    return CostTable(points=tuple(points))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    models = draw(st.lists(st.sampled_from(("one", "two")), min_size=0, max_size=4))
    devices = tuple(
        Device(uuid=f"GPU-{number}", model=model, rt_cores=draw(st.booleans())) for number, model in enumerate(models)
    )
    on = {model: draw(tables((25, 100))) for model in sorted(set(models))}
    costs: dict[str, Any] = {}
    for stage in ("generation", "training"):
        cpu = {CPU: draw(tables((1, 2)))} if not models or draw(st.booleans()) else {}
        costs[stage] = StageCosts(tables={**cpu, **on})
    rendering = on if models and draw(st.booleans()) else {}
    simulation = {CPU: CostTable(points=tuple(
        Point(quota=cores, batch=1, seconds=draw(times), core_s=0.1) for cores in (1, 4)
    ))}  # fmt: skip
    number = draw(st.integers(1, 8))
    return Problem(
        nodes=(Node(name="a", cores=tuple(range(number)), devices=devices), Node(name="b", cores=(0, 1))),
        simulation=StageCosts(tables={**simulation, **rendering}),
        **costs,
        environments=draw(st.integers(1, 24)),
        iteration=draw(st.sampled_from((8, 64))),
        others_core_s=draw(st.sampled_from((0.0, 0.01))),
        barriers=draw(st.booleans()),
        rt_cores=draw(st.booleans()),
        step_percent=draw(st.sampled_from((20, 30))),
        core_quotas={SIMULATION: frozenset({("a", 0)})} if draw(st.booleans()) else {},
    )


@settings(max_examples=60, deadline=None)
@given(problems())
def test_no_plan_is_predicted_above_it(problem: Problem) -> None:
    assert allocate(problem).prediction.rate <= roofline(problem).rate * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 24), st.integers(1, 9), st.integers(1, 2))
def test_no_allocation_is_predicted_above_it(problem: Problem, batch: int, tenths: int, threads: int) -> None:
    percent = round(tenths * 10 / problem.step_percent) * problem.step_percent
    uuids = [device.uuid for device in problem.devices]
    tells = {name: bool(uuids) and bool(getattr(problem, name).devices()) for name in ("generation", "training")}
    allocation = Allocation(
        generation={uuid: 100 - percent for uuid in uuids if percent < 100} if tells["generation"] else {},
        training={uuid: percent for uuid in uuids if percent > 0} if tells["training"] else {},
        batch=min(batch, problem.environments),
        generation_threads=min(threads, problem.grid("generation_threads")[-1]),
        training_threads=min(threads, problem.grid("training_threads")[-1]),
    )
    assert predict(problem, allocation).rate <= roofline(problem).rate * (1 + 1e-9)


@pytest.mark.parametrize(
    "problem",
    [
        on_cores(cores=4, window=8),
        on_cores(cores=64, window=8, environments=4),
        on_devices(cores=8, window=4),
        on_devices(cores=100, window=4),
        on_devices(cores=100, window=4, environments=256, training=straight("gpu", 0.1, 0.06)),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_no_rehearsal_gets_above_it(problem: Problem, noise: float) -> None:
    truth = TrueCosts.of(
        problem,
        episode=20,
        reset_s=0.5,
        episode_spread=noise,
        simulation_sigma=noise,
        generation_sigma=noise,
        training_sigma=noise,
    )
    told = truth.told(problem)
    rehearsal = Rehearsal(problem, allocate(told).allocation, truth)
    rehearsal.run(4)
    assert throughput(rehearsal.run(20)) <= roofline(told).rate * 1.01
