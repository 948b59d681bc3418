from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

import ebrl
from ebrl.errors import PlanError, UsageError
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan, StagePlan
from ebrl.graph.plan_file import check_plan, differences, read_plan
from ebrl.observe.records import write_json
from ebrl.planner.first_plan import first_plan
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool
from ebrl.stages import generate, simulate, train_ppo

POOL = ResourcePool(cores=(0, 1), memory_mib=4096)


@ebrl.workflow
def pendulum() -> None:
    policy = ebrl.policy("mlp")
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights)
    observations, trajectories = simulate("emulated:fast", actions, num_envs=4)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(policy, trajectories)


GRAPH: Graph = pendulum()
PLAN = first_plan(GRAPH, POOL)


def with_stage(name: str, change: Callable[[StagePlan], StagePlan]) -> Plan:
    return attrs.evolve(PLAN, stages=tuple(change(s) if s.name == name else s for s in PLAN.stages))


def quota(**changes: object) -> Callable[[StagePlan], StagePlan]:
    return lambda stage: attrs.evolve(stage, quota=attrs.evolve(stage.quota, **changes))  # type: ignore[arg-type]


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    for plan in (PLAN, first_plan(GRAPH, POOL, "hybrid", ["pipeline", "rebinding"])):
        write_json(tmp_path / "plan.json", plan)
        assert read_plan(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    ("text", "message", "detail"),
    [
        (None, "cannot be read: No such file", ""),
        ("{", "is not JSON", ""),
        ('{"workflow": "x"}', "is no plan", "required field missing @ $.stages"),
        ('{"workflow": "x", "stages": [], "loops": [], "batch": 8}', "is no plan", "batch"),
        ("[]", "is no plan", ""),
    ],
)
def test_files_that_are_no_plans(tmp_path: Path, text: str | None, message: str, detail: str) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_plan(path)
    assert message in caught.value.message
    assert detail in (caught.value.detail or "")


def test_a_value_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    rows = json.loads(json.dumps(attrs.asdict(PLAN)))
    rows["stages"][0]["quota"]["threads"] = "many"
    (tmp_path / "plan.json").write_text(json.dumps(rows))
    with pytest.raises(UsageError) as caught:
        read_plan(tmp_path / "plan.json")
    assert "$.stages[0].quota.threads" in (caught.value.detail or "")


@pytest.mark.parametrize(
    ("plan", "where", "message"),
    [
        (with_stage("simulate", quota(cores=(0, 7))), "simulate", "gives it the cores [0, 7]"),
        (with_stage("simulate", quota(cores=())), "simulate", "gives it the cores []"),
        (with_stage("simulate", quota(cores=(1, 1))), "simulate", "gives it a core twice: [1, 1]"),
        (with_stage("generate", quota(gpus=("GPU-1",))), "generate", "gives it the GPU 'GPU-1'"),
        (with_stage("generate", lambda stage: attrs.evolve(stage, batch_size=0)), "generate", "says batch_size = 0"),
        (with_stage("generate", lambda stage: attrs.evolve(stage, kind="stage")), "generate", "calls it a stage"),
        (with_stage("generate", lambda stage: attrs.evolve(stage, name="generat")), "", "has a stage 'generat'"),
        (attrs.evolve(PLAN, groups=0), "", "says groups = 0"),
        (attrs.evolve(PLAN, stages=PLAN.stages[:-1]), "", "lacks the stage 'train_ppo'"),
    ],
)
def test_plans_that_do_not_fit(plan: Plan, where: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_plan(plan, GRAPH, POOL)
    assert message in caught.value.message
    assert (caught.value.where or "") == where
    assert caught.value.hint


def test_a_plan_that_fits() -> None:
    check_plan(PLAN, GRAPH, POOL)


GPUS = attrs.evolve(POOL, gpus=(Gpu(uuid="a", memory_mib=1000), Gpu(uuid="b")))


def sharing(training: int, schedule: str = "ebrl", **changes: object) -> Plan:
    """Generation has 60 % of `a`, training `training` % of both."""
    told: dict[str, dict[str, object]] = {
        "generate": {"gpus": ("a",), "sm_percent": (60,), "gpu_memory_mib": (400,)},
        "train_ppo": {
            "gpus": ("a", "b"), "sm_percent": (training, training), "gpu_memory_mib": (600, 5000), **changes
        },
    }  # fmt: skip
    plan = first_plan(GRAPH, GPUS, schedule)
    stages = tuple(quota(**told[stage.name])(stage) if stage.name in told else stage for stage in plan.stages)
    return attrs.evolve(plan, stages=stages)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (sharing(50), "asks for 110 % of the GPU a, which has 100: generate 60, train_ppo 50"),
        (sharing(40, gpu_memory_mib=(601, 1)), "asks for 1001 MiB of the GPU a, which has 1000: generate 400, train_"),
        (sharing(100, "colocated", gpu_memory_mib=(1001, 1)), "asks for 1001 MiB of the GPU a, which has 1000: train"),
        (sharing(90, "sync", gpu_memory_mib=(601, 1)), "asks for 1001 MiB of the GPU a"),
        (sharing(0), "gives it 0 % of a GPU"),
        (sharing(40, gpu_memory_mib=(1,)), "gives it gpu_memory_mib [1] on 2 GPU(s)"),
    ],
)
def test_devices_are_not_given_twice(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_plan(plan, GRAPH, GPUS)
    assert message in caught.value.message
    assert caught.value.hint


def test_stages_that_take_turns_may_each_have_a_whole_device() -> None:
    in_turn = {"gpu_memory_mib": (900, 1)}
    for plan in (sharing(40), sharing(100, "sync"), sharing(100, "colocated", **in_turn), sharing(100, "hybrid")):
        check_plan(plan, GRAPH, GPUS)


def test_differences_name_what_the_schedule_changes() -> None:
    assert list(differences(PLAN, first_plan(GRAPH, POOL, "hybrid", ["rebinding"]))) == [
        "schedule ebrl -> hybrid",
        "without none -> rebinding",
        "max_staleness 1 -> 0",
        "step_barrier False -> True",
        "groups 1 -> 2",
        "rebinding True -> False",
        "generate: batch_size 4 -> 2",
    ]


def test_differences_name_stage_and_field() -> None:
    other = with_stage("simulate", quota(cores=(1,), memory_mib=512))
    other = attrs.evolve(other, max_staleness=2, stages=other.stages[:-1])
    assert list(differences(PLAN, PLAN)) == []
    assert list(differences(PLAN, other)) == [
        "max_staleness 1 -> 2",
        "simulate: cores 0,1 -> 1",
        "simulate: memory_mib none -> 512",
        "train_ppo: only in the first",
    ]
