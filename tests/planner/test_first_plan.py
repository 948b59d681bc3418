from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebrl
from ebrl.errors import PlanError, UsageError
from ebrl.graph.model import Resources
from ebrl.graph.plan import Plan, Quota, StagePlan, replica_cores
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.first_plan import check_resources, first_plan, stage_cores
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.environments import Environments

POOL = ResourcePool(cores=(0, 1), memory_mib=4096)
GPUS = tuple(Gpu(uuid=f"GPU-{name}", name="H200") for name in "ab")


@ebrl.simulation
def simulate(env: ebrl.Simulator, chunk: ebrl.ActionChunk) -> Iterator[ebrl.Step]: ...


@ebrl.generation
def generate(
    policy: ebrl.Policy, observations: ebrl.Batch[ebrl.Observation], weights: ebrl.Weights
) -> ebrl.Batch[ebrl.ActionChunk]: ...


@ebrl.training
def train_ppo(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights: ...


@ebrl.stage
def shaped(trajectory: ebrl.Trajectory) -> ebrl.Trajectory: ...


@ebrl.stage
def evaluate(environments: Environments, policy: ebrl.Policy, weights: ebrl.Weights) -> None: ...


@ebrl.workflow
def lift_ppo(task: str = "robosuite:Lift", num_envs: int = 8, max_staleness: int = 1):
    policy = ebrl.policy("mlp", hidden=(64, 64))
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate(task, actions, num_envs=num_envs)
    actions <<= generate(policy, observations, weights)
    weights <<= train_ppo(policy, trajectories)
    evaluate(task, policy, weights, every=10)


def planned(trainer: Callable[..., Any] = train_ppo, relabel: bool = False, **options: Any) -> Any:
    """A graph with that training stage and engine options by stage name."""

    @ebrl.workflow
    def flow():
        policy = ebrl.policy("mlp")
        actions = ebrl.stream(ebrl.ActionChunk)
        weights = ebrl.latest(ebrl.Weights)
        observations, trajectories = simulate(
            "gymnasium:Pendulum-v1", actions, num_envs=5, **options.get("simulate", {})
        )
        actions <<= generate(policy, observations, weights, **options.get("generate", {}))
        weights <<= trainer(policy, shaped(trajectories) if relabel else trajectories, **options.get("train", {}))

    return flow()


def test_lift_ppo() -> None:
    quota = Quota(cores=(0, 1), threads=1)
    bound = attrs.evolve(quota, bound=True)
    assert first_plan(lift_ppo(), POOL) == Plan(
        workflow="lift_ppo",
        schedule="ebrl",
        max_staleness=1,
        step_barrier=False,
        stages=(
            StagePlan(name="simulate", kind="simulation", quota=bound, batch_size=1),
            StagePlan(name="generate", kind="generation", quota=quota, batch_size=8),
            StagePlan(name="train_ppo", kind="training", quota=quota, batch_size=8),
            StagePlan(name="evaluate", kind="stage", quota=bound, batch_size=1),
        ),
        loops=(("simulate", "generate"),),
    )
    assert first_plan(lift_ppo(), POOL).item_stages == ("train_ppo", "evaluate")


def test_sync_acts_on_all_environments_at_once() -> None:
    plan = first_plan(lift_ppo(max_staleness=3), POOL, "sync")
    assert (plan.schedule, plan.max_staleness, plan.step_barrier) == ("sync", 0, True)
    assert plan.stage("generate").batch_size == 8
    assert first_plan(lift_ppo(max_staleness=3), POOL).max_staleness == 3


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_plan_follows_its_schedule(name: str) -> None:
    rules, plan = SCHEDULES[name], first_plan(lift_ppo(max_staleness=3), POOL, name)
    assert (plan.schedule, plan.title, plan.without) == (name, name, ())
    assert plan.max_staleness == (3 if rules.overlap else 0)
    assert (plan.step_barrier, plan.groups, plan.rebinding) == (rules.step_barrier, rules.groups, True)
    assert plan.stage("generate").batch_size == (4 if name == "hybrid" else 8)


def test_a_plan_without_mechanisms() -> None:
    plan = first_plan(lift_ppo(max_staleness=3), POOL, "ebrl", ["rebinding", "pipeline"])
    assert (plan.title, plan.without) == ("ebrl without pipeline, rebinding", ("pipeline", "rebinding"))
    assert (plan.max_staleness, plan.step_barrier, plan.rebinding) == (3, True, False)
    assert first_plan(lift_ppo(), POOL, without=["overlap"]).max_staleness == 0
    with pytest.raises(UsageError, match="there is no mechanism 'rebind'"):
        first_plan(lift_ppo(), POOL, without=["rebind"])


def test_behind_a_barrier_a_batch_is_a_group_of_one_replica() -> None:
    def batch(schedule: str, **options: Any) -> int:
        return first_plan(planned(**options), POOL, schedule).stage("generate").batch_size

    assert [batch(schedule) for schedule in ("sync", "hybrid")] == [5, 3]
    assert [batch(schedule, simulate={"replicas": 2}) for schedule in ("sync", "hybrid", "ebrl")] == [3, 2, 5]
    assert batch("hybrid", generate={"batch_size": 2}) == 2


def test_batch_sizes() -> None:
    plan = first_plan(planned(), POOL)
    assert (plan.stage("generate").batch_size, plan.stage("train_ppo").batch_size) == (5, 5)
    plan = first_plan(planned(generate={"batch_size": 2}, train={"batch": 7}), POOL)
    assert (plan.stage("generate").batch_size, plan.stage("train_ppo").batch_size) == (2, 7)
    # The trajectories may pass another stage on their way.
    assert first_plan(planned(relabel=True), POOL).stage("train_ppo").batch_size == 5


def test_threads() -> None:
    def threads(cores: int) -> int:
        return first_plan(planned(), ResourcePool(cores=tuple(range(cores)))).stage("train_ppo").quota.threads

    assert [threads(cores) for cores in (1, 4, 5, 16)] == [1, 1, 1, 4]


def test_a_simulation_uses_the_cores_that_it_asks_for() -> None:
    graph = planned(simulate={"replicas": 2})
    node = graph.nodes["simulate"]
    graph.nodes["simulate"] = node = attrs.evolve(node, stage=attrs.evolve(node.stage, resources=Resources(cpus=2.5)))
    pool = ResourcePool(cores=(2, 3, 4, 5))
    plan = first_plan(graph, pool)
    assert plan.stage("simulate").quota.cores == stage_cores(node, pool) == (2, 3, 4)
    assert plan.stage("generate").quota.cores == stage_cores(graph.nodes["generate"], pool) == (2, 3, 4, 5)
    assert stage_cores(node, ResourcePool(cores=(9,))) == (9,)
    assert "simulate: its 2 replicas divide their cores" in plan.notes


@given(st.integers(1, 9), st.integers(1, 9))
def test_replicas_of_a_simulation_divide_their_cores(cores: int, replicas: int) -> None:
    stage = StagePlan(name="s", kind="simulation", replicas=replicas, quota=Quota(cores=tuple(range(cores))))
    shares = [replica_cores(stage, replica) for replica in range(replicas)]
    if cores < replicas:
        assert shares == [stage.quota.cores] * replicas
    else:
        assert sum(shares, ()) == stage.quota.cores
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    serving = attrs.evolve(stage, kind="generation")
    assert {replica_cores(serving, replica) for replica in range(replicas)} == {stage.quota.cores}


def test_only_replicas_on_the_same_node_divide_its_cores() -> None:
    stage = StagePlan(name="s", kind="simulation", replicas=3, quota=Quota(cores=(0, 1, 2, 3)))
    assert [replica_cores(stage, replica, beside=(0, 2)) for replica in (0, 2)] == [(0, 1), (2, 3)]
    assert replica_cores(stage, 1, beside=(1,)) == (0, 1, 2, 3)


def training(**resources: float) -> Callable[..., Any]:
    return ebrl.training(**resources)(train_ppo.function)


def test_resources_that_a_stage_asks_for() -> None:
    pool = ResourcePool(cores=(4, 5, 6), memory_mib=4096, gpus=GPUS)
    quota = first_plan(planned(training(cpus=2, gpus=1, memory_mib=100)), pool).stage("train_ppo").quota
    assert quota == Quota(cores=(4, 5), threads=2, gpus=("GPU-a",), memory_mib=100)


def test_gpus_are_handed_out_in_turn() -> None:
    def sharing(pool: ResourcePool) -> tuple[Any, ...]:
        graph = planned(training(gpus=1))
        node = graph.nodes["generate"]
        stage = attrs.evolve(node.stage, resources=attrs.evolve(node.stage.resources, gpus=1))
        graph.nodes["generate"] = attrs.evolve(node, stage=stage)
        plan = first_plan(graph, pool)
        return plan.stage("generate").quota.gpus, plan.stage("train_ppo").quota.gpus, plan.notes

    assert sharing(ResourcePool(cores=(0,), gpus=GPUS)) == (("GPU-a",), ("GPU-b",), ())
    one, other, notes = sharing(ResourcePool(cores=(0,), gpus=GPUS[:1]))
    assert one == other == ("GPU-a",)
    assert notes == ("stages ask for 2 GPUs together and share 1; nothing divides them yet",)


def on_gpus(schedule: str, count: int, *kinds: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """Devices by stage where stages of `kinds` ask for one each; notes too."""
    graph = planned()
    for name, node in graph.nodes.items():
        if node.stage.kind in kinds:
            graph.nodes[name] = attrs.evolve(node, stage=attrs.evolve(node.stage, resources=Resources(gpus=1)))
    pool = ResourcePool(cores=(0,), gpus=tuple(Gpu(uuid=f"{number}", name="H200") for number in range(count)))
    plan = first_plan(graph, pool, schedule, without)
    return {stage.kind: "".join(stage.quota.gpus) for stage in plan.stages} | {"notes": plan.notes}


TURNS = ("stages take turns on GPUs, but keep their memory there meanwhile: a run offloads nothing",)


def test_how_schedules_have_devices() -> None:
    stages = ("generation", "training")
    own = {"simulation": "", "generation": "0", "training": "1", "notes": ()}
    assert [on_gpus(name, 2, *stages) for name in ("ebrl", "sync", "async", "disaggregated")] == [own] * 4
    all_have = {"simulation": "", "generation": "01", "training": "01", "notes": TURNS}
    assert on_gpus("colocated", 2, *stages) == all_have
    assert on_gpus("hybrid", 2, *stages) == all_have, "the simulation has no use for its half"
    assert on_gpus("hybrid", 5, "simulation", *stages) == {
        "simulation": "01", "generation": "234", "training": "01234", "notes": TURNS
    }  # fmt: skip
    assert on_gpus("hybrid", 0)["notes"] == on_gpus("async", 0)["notes"] == ()


@pytest.mark.parametrize(
    ("schedule", "without", "message", "hint"),
    [
        ("async", (), "the stages ask for 2 GPUs together, this machine has 1 GPU(s): H200, and no two", "colocated"),
        ("disaggregated", (), "no two stages may share one", "ebrl and sync share"),
        ("ebrl", ("allocation",), "no two stages may share one", "ebrl and sync share"),
        ("hybrid", (), "needs a GPU for the simulation and one for the generation, this machine has 1", "colocated"),
    ],
)
def test_schedules_that_need_more_devices(schedule: str, without: tuple[str, ...], message: str, hint: str) -> None:
    kinds = ("simulation" if schedule == "hybrid" else "training", "generation")
    with pytest.raises(PlanError) as caught:
        on_gpus(schedule, 1, *kinds, without=without)
    assert message in caught.value.message and hint in (caught.value.hint or "")
    assert on_gpus("sync", 1, *kinds)["generation"] == "0"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"gpus": 1}, "asks for gpus=1, this machine has no GPU"),
        ({"cpus": 3}, "asks for cpus=3, this machine has 2 core(s)"),
        ({"memory_mib": 5000}, "asks for memory_mib=5000, this machine has 4096 MiB of memory"),
    ],
)
def test_impossible_resources(asked: dict[str, float], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_resources(planned(training(**asked)), POOL)
    assert caught.value.message == message
    assert caught.value.where == "train_ppo"
    assert "test_first_plan.py:" in caught.value.place


def test_what_exists_is_listed() -> None:
    with pytest.raises(PlanError, match=r"asks for gpus=3, this machine has 2 GPU\(s\): H200, H200"):
        first_plan(planned(training(gpus=3)), ResourcePool(cores=(0,), gpus=GPUS))
    with pytest.raises(PlanError, match=r"has 1 core\(s\) under a cgroup quota of 1.5"):
        first_plan(planned(training(cpus=2)), ResourcePool(cores=(0,), cpu_quota=1.5))


def test_notes_say_what_is_advisory() -> None:
    pool = ResourcePool(cores=(0,), cpu_quota=1.5, pinning=False, gpus=GPUS)
    notes = first_plan(planned(training(gpus=0.5), simulate={"replicas": 2}), pool).notes
    assert notes == (
        "cores are advisory: processes cannot be bound to cores here",
        "the cgroup quota of 1.5 cores leaves 1 core(s) to plan with",
        "simulate: its 2 replicas share their cores",
        "train_ppo: the share of 0.5 GPU is advisory, nothing enforces it yet",
    )


def test_unknown_schedule() -> None:
    with pytest.raises(UsageError, match="there is no schedule 'snyc'") as caught:
        first_plan(lift_ppo(), POOL, "snyc")
    assert caught.value.hint == "did you mean 'sync' or 'async'?"


def test_environments_are_bound_only_where_the_stage_has_the_machine_to_itself() -> None:
    graph = planned()

    def bound(pool: ResourcePool) -> bool:
        return first_plan(graph, pool).stage("simulate").quota.bound

    assert bound(ResourcePool(cores=(2, 5)))
    assert not bound(ResourcePool(cores=(2, 5), pinning=False))
    assert not bound(ResourcePool(cores=(0,), cpu_quota=1.5)), "the quota may be used on any core"
    assert not first_plan(graph, ResourcePool(cores=(0, 1))).stage("generate").quota.bound
