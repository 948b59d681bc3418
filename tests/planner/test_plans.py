"""From a plan to the allocator's numbers and back, and the reasons for a plan that a profile made."""

from __future__ import annotations

import attrs
import pytest
from rich.console import Console

import ebrl
from ebrl.errors import UsageError
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.observe.plan_table import explanation_lines, plan_table
from ebrl.planner.allocate import SLACK, allocate
from ebrl.planner.explain import as_it_is, explained, planned, profiled_problem
from ebrl.planner.first_plan import first_plan
from ebrl.planner.plans import allocation_of, changed, chunks_per_iteration
from ebrl.planner.predict import predict
from ebrl.planner.problem import Allocation, Device, Problem
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool

from ..bad_workflows.good_stages import generate, simulate, train
from .machines import on_devices
from .profiles import made, point

POOL = ResourcePool(cores=(2, 3))


@ebrl.training(cpus=1)
def train_on_one(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights: ...


@ebrl.workflow
def flow(batch_size: int | None = None, one: bool = False) -> None:
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("gymnasium:Pendulum-v1", actions, num_envs=4, num_steps=16)
    actions <<= generate(policy, observations, weights, batch_size=batch_size)
    weights <<= (train_on_one if one else train)(policy, trajectories)


def problem(graph: Graph, schedule: str = "ebrl", *without: str) -> tuple[Plan, Problem]:
    plan = first_plan(graph, POOL, schedule, without)
    return plan, profiled_problem(graph, plan, POOL, made())


def test_what_the_allocator_is_told_of_a_graph() -> None:
    plan, asked = problem(flow())
    assert (asked.environments, asked.iteration, asked.barriers, asked.devices) == (4, 64, False, ())
    assert asked.cores == {("", 2), ("", 3)}
    assert (dict(asked.pinned), dict(asked.core_quotas)) == ({}, {})
    assert chunks_per_iteration(flow(), plan) == 64
    taking_turns = ("sync", "colocated", "disaggregated", "hybrid")
    assert all(problem(flow(), name)[1].barriers for name in taking_turns)
    assert problem(flow(), "ebrl", "overlap")[1].barriers and not problem(flow(), "async")[1].barriers


def test_behind_a_step_barrier_the_batch_stays() -> None:
    assert problem(flow(), "async")[1].pinned == {"batch": 4}
    plan, asked = problem(flow(), "hybrid")
    assert planned(flow(), plan, POOL, asked)[0].stage("generate").batch_size == 2


def test_without_allocation_a_profile_changes_nothing() -> None:
    plan, asked = problem(flow(), "ebrl", "allocation")
    found, answer = planned(flow(), plan, POOL, asked)
    assert found == attrs.evolve(plan, predicted=answer.prediction.rate)
    assert answer.prediction == as_it_is(asked, plan)


def test_what_the_author_fixed_is_pinned() -> None:
    _, asked = problem(flow(batch_size=2, one=True))
    assert asked.pinned == {"batch": 2, "training_threads": 1}
    assert asked.core_quotas == {"training": {("", 2)}}
    answer = allocate(asked, slack=SLACK)
    assert (answer.allocation.batch, answer.allocation.training_threads) == (2, 1)


@pytest.mark.parametrize("one", [False, True])
def test_a_plan_as_an_allocation_and_back_is_the_plan(one: bool) -> None:
    graph = flow(one=one)
    plan, asked = problem(graph)
    there = allocation_of(plan, asked)
    back = changed(plan, there, graph, POOL, asked)
    assert (back.stages, back.epoch) == (plan.stages, plan.epoch + 1)
    assert allocation_of(back, asked) == there


def test_an_allocation_becomes_a_plan() -> None:
    graph = flow()
    plan, asked = problem(graph)
    wanted = Allocation(batch=2, generation_threads=2, training_threads=2, cores={"simulation": frozenset({("", 3)})})
    found = changed(plan, wanted, graph, POOL, asked)
    assert found.predicted == predict(asked, wanted).rate
    simulation, generation, training = (found.stage(name) for name in ("simulate", "generate", "train"))
    assert (simulation.quota.cores, simulation.batch_size) == ((3,), 1)
    assert (generation.batch_size, generation.quota.threads, generation.quota.cores) == (2, 2, (2, 3))
    assert (training.quota.threads, training.batch_size) == (2, plan.stage("train").batch_size)
    assert allocation_of(found, asked) == wanted


def test_shares_of_devices_become_replicas_and_what_they_need_there() -> None:
    graph, asked = flow(), on_devices(2)
    first, second = (device.uuid for device in asked.devices)
    plan = first_plan(graph, POOL)
    wanted = Allocation(generation={first: 30, second: 100}, training={first: 70}, batch=8, generation_replicas=2)
    found = changed(plan, wanted, graph, POOL, asked)
    generation, training = found.stage("generate"), found.stage("train")
    assert (generation.replicas, generation.batch_size) == (2, 8)
    assert (generation.quota.gpus, generation.quota.sm_percent) == ((first, second), (30, 100))
    assert (training.replicas, training.quota.gpus, training.quota.sm_percent) == (1, (first,), (70,))
    table = asked.training.on(asked.devices[0].model)
    assert table is not None and training.quota.gpu_memory_mib == (table.memory_mib(asked.iteration),)
    assert attrs.evolve(allocation_of(found, asked), cores={}) == wanted


def test_a_profiled_plan_is_that_of_the_allocator_and_still_the_first() -> None:
    graph = flow()
    plan, asked = problem(graph)
    found, answer = planned(graph, plan, POOL, asked)
    assert found.epoch == 0
    assert allocation_of(found, asked) == answer.allocation == allocate(asked, slack=SLACK).allocation
    assert found.predicted == answer.prediction.rate
    assert as_it_is(asked, found).rate == pytest.approx(answer.prediction.rate)
    assert as_it_is(asked, plan).rate <= found.predicted * (1 + 1e-9)


def test_reasons_on_a_machine_without_devices() -> None:
    graph = flow()
    plan, asked = problem(graph)
    answer = planned(graph, plan, POOL, asked)[1]
    found = explained(asked, answer, chunk=5)
    assert list(found.more) == ["one more core"]
    assert found.more["one more core"] == pytest.approx(0.5, abs=0.06)  # of two cores that are the bottleneck
    assert (found.exact, found.chunk) == (True, 5)


def test_reasons_on_a_machine_with_devices() -> None:
    asked = on_devices(environments=4000, cores=512)
    answer = allocate(asked, slack=SLACK)
    found = explained(asked, answer, chunk=1)
    assert list(found.more) == ["one more core", "devices 10 % larger", "one more device"]
    assert found.more["one more core"] == pytest.approx(0.0, abs=1e-6)
    assert found.more["devices 10 % larger"] == pytest.approx(0.1, abs=0.01)
    assert found.more["one more device"] > 0.1


def test_one_more_core_is_nothing_to_a_stage_that_may_not_use_it() -> None:
    """``cpus=`` is a number of cores: it does not grow with the machine."""
    asked = problem(flow())[1]
    bound = attrs.evolve(asked, core_quotas={"simulation": frozenset({("", 2)})})
    answer = allocate(bound)
    assert answer.prediction.bottleneck == "cores of simulation"
    assert explained(bound, answer, 1).more["one more core"] == pytest.approx(0.0, abs=1e-6)


def test_the_reasons_as_text() -> None:
    graph = flow()
    plan, asked = problem(graph)
    found = explained(asked, planned(graph, plan, POOL, asked)[1], chunk=5)
    lines = list(explanation_lines(found))
    rate = found.prediction.rate
    assert lines[0] == (
        f"expected: {rate:,.0f} chunk-steps/s ({5 * rate:,.0f} environment steps/s), "
        "bounded by cores of simulation + generation + training"
    )
    assert lines[1].startswith("idle: simulation ")
    assert lines[-1].startswith("more: one more core +")
    cut = attrs.evolve(found, exact=False)
    assert "not searched exhaustively" in list(explanation_lines(cut))[-1]


def test_a_profile_of_a_slower_stage_moves_the_bottleneck() -> None:
    slow = made(stages={**made().stages, "training": (point(1, 64, 6.4),)})
    graph = flow()
    plan = first_plan(graph, POOL, "ebrl")
    asked = profiled_problem(graph, plan, POOL, slow)
    found, answer = planned(graph, plan, POOL, asked)
    assert answer.prediction.bottleneck == "training"
    assert found.predicted == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize("without", [(), ("allocation",)])
def test_a_profile_of_devices_says_nothing_of_cores(without: tuple[str, ...]) -> None:
    rows = {**made().stages, "training": (point(100, 64, 0.1, resource="NVIDIA H100 80GB HBM3"),)}
    graph = flow()
    plan = first_plan(graph, POOL, "ebrl", without)
    asked = profiled_problem(graph, plan, POOL, made(stages=rows))
    with pytest.raises(UsageError, match="knows no costs of the training on anything that this plan gives them"):
        planned(graph, plan, POOL, asked)


GPUS = ResourcePool(
    cores=tuple(range(16)), gpus=tuple(Gpu(uuid=f"GPU-{n}", name="gpu", memory_mib=80_000) for n in (0, 1))
)
ELSEWHERE = Gpu(uuid="GPU-2", name="another")


def on_gpus(schedule: str = "ebrl", **changes: object) -> tuple[Plan, Problem]:
    """Generation and training have costs on devices only."""
    stages = {
        "simulation": (point(1, 1, 0.3),),
        "generation": tuple(point(quota, 1, 10 / quota, resource="gpu", core_s=0.0) for quota in (50, 100)),
        "training": tuple(point(quota, 64, 300 / quota, resource="gpu", core_s=0.0) for quota in (50, 100)),
    }
    plan = first_plan(flow(), GPUS, schedule)
    return plan, profiled_problem(flow(), plan, GPUS, made(stages=stages, **changes))


def test_devices_on_which_a_stage_has_costs_are_planned_with() -> None:
    _, asked = on_gpus()
    assert asked.devices == tuple(Device(uuid=gpu.uuid, model="gpu", memory_mib=80_000.0) for gpu in GPUS.gpus)
    mixed = attrs.evolve(GPUS, gpus=(*GPUS.gpus, ELSEWHERE))
    plan = first_plan(flow(), mixed)
    assert not profiled_problem(flow(), plan, mixed, made()).devices


def test_shares_of_devices_become_a_plan_and_are_shown() -> None:
    plan, asked = on_gpus()
    found, answer = planned(flow(), plan, GPUS, asked)
    generation, training = found.stage("generate"), found.stage("train")
    assert dict(zip(generation.quota.gpus, generation.quota.sm_percent, strict=True)) == answer.allocation.generation
    assert dict(zip(training.quota.gpus, training.quota.sm_percent, strict=True)) == answer.allocation.training
    assert generation.replicas == len(answer.allocation.generation) > 0
    assert as_it_is(asked, found).rate == pytest.approx(answer.prediction.rate)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(plan_table(found))
    assert f"{generation.quota.sm_percent[0]} %" in shown.get()


@pytest.mark.parametrize("schedule", ["async", "colocated"])
def test_a_schedule_that_does_not_divide_devices_keeps_those_that_its_stages_ask_for(schedule: str) -> None:
    plan, asked = on_gpus(schedule)
    with pytest.raises(UsageError, match="no costs of the generation and the training") as refused:
        planned(flow(), plan, GPUS, asked)
    assert "ebrl rehearse" in refused.value.hint


def test_resets_are_part_of_what_a_chunk_step_costs() -> None:
    _, asked = on_gpus(episode=10.0, reset_s=2.0, window=32)
    table = asked.simulation.on("cpu")
    assert table is not None and table.seconds(1, 1) == pytest.approx(0.5)
    assert (asked.window, asked.reset_s) == (32, 2.0)
