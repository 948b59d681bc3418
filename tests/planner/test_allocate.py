"""The allocator against trying everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebrl.planner.allocate import allocate
from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.predict import predict
from ebrl.planner.problem import Allocation, Device, Node, Problem

seconds = st.floats(0.001, 1.0)


def rising(low: float, factors: list[float]) -> list[float]:
    values = [low]
    for factor in factors:
        values.append(values[-1] * factor)
    return values


@st.composite
def tables(draw: st.DrawFn, *, device: bool, batched: bool = True) -> CostTable:
    quotas = (50, 100) if device else (1, 2)
    batches = (1, 4) if batched else (1,)
    points = []
    for quota in quotas:
        base = draw(seconds)
        for batch in batches:
            took = base * (1 if batch == 1 else draw(st.floats(1.0, 4.0)))
            host = draw(st.floats(0.0, 0.2)) if device else took * quota
            memory = draw(st.sampled_from([0.0, 300.0, 600.0])) if device else 0.0
            points.append(Point(quota=quota, batch=batch, seconds=took, core_s=host, memory_mib=memory))
    return CostTable(points=tuple(points))


@st.composite
def costs(draw: st.DrawFn, models: tuple[str, ...], *, batched: bool = True, cpu: bool | None = None) -> StageCosts:
    chosen = [model for model in models if draw(st.booleans())]
    with_cpu = draw(st.booleans()) if cpu is None else cpu
    found = {model: draw(tables(device=True, batched=batched)) for model in chosen}
    if with_cpu or not found:
        found[CPU] = draw(tables(device=False, batched=batched))
    return StageCosts(tables=found)


@st.composite
def problems(draw: st.DrawFn, barriers: bool | None = None) -> Problem:
    models = tuple(draw(st.lists(st.sampled_from(["a", "b"]), max_size=3)))
    devices = tuple(
        Device(
            uuid=f"GPU-{number}",
            model=model,
            memory_mib=draw(st.sampled_from([500.0, 1000.0, 4000.0])),
            rt_cores=draw(st.booleans()),
        )
        for number, model in enumerate(models)
    )
    nodes = [Node(cores=tuple(range(draw(st.integers(1, 3)))), devices=devices)]
    if draw(st.booleans()):
        nodes.append(Node(name="sims", cores=tuple(range(draw(st.integers(1, 4))))))
    rendering = bool(devices) and draw(st.booleans())
    return Problem(
        nodes=tuple(nodes),
        simulation=draw(costs(models if rendering else (), batched=False, cpu=True)),
        generation=draw(costs(models)),
        training=draw(costs(models)),
        environments=draw(st.integers(1, 6)),
        iteration=draw(st.sampled_from([4, 7])),
        others_core_s=draw(st.sampled_from([0.0, 0.05])),
        barriers=draw(st.booleans()) if barriers is None else barriers,
        rt_cores=draw(st.booleans()),
        step_percent=50,
        batches=(1, 2, 4),
        threads=(1, 2),
    )


def everything(problem: Problem) -> Iterator[Allocation]:
    """Every allocation on the grid, the wasteful ones included."""
    devices = problem.devices
    percents = (0, 50, 100)
    for uses in product(product(percents, repeat=3), repeat=len(devices)):
        if any(sum(use) > 100 for use in uses):
            continue
        shares = [{d.uuid: use[n] for d, use in zip(devices, uses, strict=True) if use[n]} for n in range(3)]
        if len(set(shares[2].values())) > 1 or not fits(problem, shares):
            continue  # devices that train together have equal shares
        for batch, own, threads in product(
            problem.grid("batch"), problem.grid("generation_threads"), problem.grid("training_threads")
        ):
            yield (
                Allocation(
                    simulation=shares[0],
                    generation=shares[1],
                    training=shares[2],
                    batch=batch,
                    generation_threads=own,
                    training_threads=threads,
                )
                if memory(problem, shares, batch)
                else Allocation()
            )


def fits(problem: Problem, shares: list[dict[str, int]]) -> bool:
    stages = (problem.simulation, problem.generation, problem.training)
    for device in problem.devices:
        for costs_, use in zip(stages, shares, strict=True):
            if device.uuid in use and costs_.on(device.model) is None:
                return False
        if device.uuid in shares[0] and problem.rt_cores and not device.rt_cores:
            return False
    return True


def memory(problem: Problem, shares: list[dict[str, int]], batch: int) -> bool:
    stages = ((problem.simulation, 1), (problem.generation, batch), (problem.training, problem.iteration))
    return all(
        sum(
            costs_.tables[device.model].memory_mib(size)
            for (costs_, size), use in zip(stages, shares, strict=True)
            if device.uuid in use
        )
        <= device.memory_mib
        for device in problem.devices
    )


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems())
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_finds_what_trying_everything_finds(problem: Problem) -> None:
    answer = allocate(problem)
    best = max(predict(problem, allocation).rate for allocation in everything(problem))
    assert answer.exact
    assert answer.prediction.rate == pytest.approx(best, rel=1e-6)
    used = [answer.allocation.simulation, answer.allocation.generation, answer.allocation.training]
    assert memory(problem, [dict(use) for use in used], answer.allocation.batch)
    for device in problem.devices:
        assert sum(use.get(device.uuid, 0) for use in used) <= 100


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems())
def test_more_resources_are_never_worse(problem: Problem) -> None:
    rate = allocate(problem).prediction.rate
    first, *others = problem.nodes
    core = attrs.evolve(first, cores=(*first.cores, 99))
    assert allocate(attrs.evolve(problem, nodes=(core, *others))).prediction.rate >= rate * (1 - 1e-9)
    if first.devices:
        one = attrs.evolve(first.devices[0], uuid="GPU-more")
        device = attrs.evolve(first, devices=(*first.devices, one))
        assert allocate(attrs.evolve(problem, nodes=(device, *others))).prediction.rate >= rate * (1 - 1e-9)


def large(*, rendering: bool = False) -> Problem:
    def table(scale: float) -> CostTable:
        return CostTable(
            points=tuple(
                Point(
                    quota=quota,
                    batch=batch,
                    seconds=scale * (0.05 + 0.002 * batch) * (100 / quota) ** 0.7,
                    core_s=0.004,
                )
                for quota in (10, 25, 50, 75, 100)
                for batch in (1, 8, 64)
            )
        )

    simulation = {CPU: CostTable(points=(Point(quota=1, batch=1, seconds=0.4, core_s=0.4),))}
    if rendering:
        simulation["h100"] = CostTable(points=(Point(quota=100, batch=1, seconds=0.001, core_s=0),))
    return Problem(
        nodes=(
            Node(
                cores=tuple(range(512)),
                devices=tuple(Device(uuid=f"GPU-{number}", model="h100") for number in range(16)),
            ),
        ),
        simulation=StageCosts(tables=simulation),
        generation=StageCosts(tables={"h100": table(1.0)}),
        training=StageCosts(tables={"h100": table(4.0)}),
        environments=1024,
        iteration=2048,
    )


@pytest.mark.parametrize("rendering", [False, True])
def test_sixteen_devices_and_512_cores_are_planned_at_once(rendering: bool) -> None:
    began_s = time.process_time()
    answer = allocate(large(rendering=rendering))
    assert answer.exact is not rendering
    assert answer.prediction.rate > 0
    assert time.process_time() - began_s < 5.0  # 0.2 s on a machine of its own
