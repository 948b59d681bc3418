"""Where replicas go and what they are told, on made-up nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from ebrl.backends.protocols import Share
from ebrl.graph.load import load_workflow
from ebrl.graph.model import Graph
from ebrl.planner.first_plan import first_plan
from ebrl.resources.pool import Gpu, ResourcePool
from ebrl.runtime.checkpoint import Checkpoint
from ebrl.runtime.placement import INSIDE, Placement, place, ranked

from .conftest import WORKFLOWS

POOLS = {
    "small": ResourcePool(cores=(0, 1), memory_mib=1024),
    "large": ResourcePool(cores=tuple(range(8)), memory_mib=1024),
}


@pytest.fixture
def graph() -> Graph:
    return load_workflow(f"{WORKFLOWS}:small")()


def placement(graph: Graph, pools: dict[str, ResourcePool], schedule: str = "ebrl") -> Placement:
    nodes = ranked(pools)
    plan = first_plan(graph, pools[nodes[0]], schedule)
    return Placement(graph=graph, plan=plan, pools=pools, places=place(plan, nodes))


def assigned(placed: Placement, **options: Any) -> dict[str, list[Any]]:
    defaults: dict[str, Any] = {"run": "r", "label": "r:", "seed": 3, "logs": "logs", "saved": None}
    return placed.assignments(**{**defaults, **options})


def test_gpus_count_before_cores() -> None:
    gpu = ResourcePool(cores=(0,), memory_mib=1024, gpus=(Gpu(uuid="GPU-1"),))
    assert ranked({**POOLS, "gpu": gpu}) == ["gpu", "large", "small"]


def test_a_simulation_gets_the_cores_of_its_node(graph: Graph) -> None:
    placed = placement(graph, POOLS)
    assert placed.places == {"simulate-0": "small", "generate-0": "large", "train_ppo-0": "large"}
    found = assigned(placed)
    assert found["simulate"][0].stage.quota.cores == (0, 1)
    assert found["train_ppo"][0].stage.quota.cores == tuple(range(8))


def test_generation_knows_which_observations_come_from_afar(graph: Graph) -> None:
    assert assigned(placement(graph, POOLS))["generate"][0].sources == {"simulate-0": True}
    alone = placement(graph, {"": POOLS["small"]})
    assert assigned(alone)["generate"][0].sources == {"simulate-0": False}


def test_workers_are_named_after_their_replicas_and_refuse_to_start_runs(graph: Graph) -> None:
    placed = placement(graph, {"": POOLS["small"]})
    (here,) = placed.workers(assigned(placed)).values()
    assert [worker.name for worker in here] == ["r:simulate-0", "r:generate-0", "r:train_ppo-0"]
    for worker in here:
        assert worker.environment == {INSIDE: worker.name, "EBRL_LOGS": "logs"}
        assert worker.resources["CPU"] == 2 and worker.resources[worker.name] >= 1


@pytest.mark.parametrize(("schedule", "in_turn"), [("ebrl", False), ("colocated", True)])
def test_replicas_divide_the_devices_of_their_stage(graph: Graph, schedule: str, in_turn: bool) -> None:
    gpus = (Gpu(uuid="a", name="H100"), Gpu(uuid="b", name="H20"))
    placed = placement(graph, {"": attrs.evolve(POOLS["small"], gpus=gpus)}, schedule)
    quota = {"gpus": ("a", "b"), "sm_percent": (30, 40), "gpu_memory_mib": (10, 20)}
    stages = [
        attrs.evolve(stage, replicas=1 + (stage.kind == "generation"), quota=attrs.evolve(stage.quota, **quota))
        for stage in placed.plan.stages
        if stage.kind != "simulation"
    ]
    plan = attrs.evolve(placed.plan, stages=(placed.plan.stages[0], *stages))
    placed = attrs.evolve(placed, plan=plan, places=place(plan, [""]))
    found = assigned(placed)
    first = (gpus[0], Share("a", 30, memory_mib=10, model="H100", in_turn=in_turn))
    second = (gpus[1], Share("b", 40, memory_mib=20, model="H20", in_turn=in_turn))
    assert [list(each.shares) for each in found["generate"]] == [[first], [second]]
    assert list(found["train_ppo"][0].shares) == [first, second]
    assert not found["simulate"][0].shares
    seen = {worker.name: worker.environment.get("CUDA_VISIBLE_DEVICES") for worker in placed.workers(found)[""]}
    assert seen == {"r:simulate-0": None, "r:generate-0": "a", "r:generate-1": "b", "r:train_ppo-0": "a,b"}


def test_logs_stay_on_the_machine_of_the_run(graph: Graph) -> None:
    placed = placement(graph, POOLS)
    for workers in placed.workers(assigned(placed)).values():
        assert all("EBRL_LOGS" not in worker.environment for worker in workers)


@pytest.mark.parametrize(("schedule", "kept"), [("sync", {0: (1, ())}), ("ebrl", None)])
def test_positions_matter_only_where_results_do_not_depend_on_timing(graph: Graph, schedule: str, kept: object) -> None:
    saved = Checkpoint(
        workflow="small", iteration=2, weights={}, states={"train_ppo": "adam"}, counters={}, positions={0: (1, ())}
    )
    found = assigned(placement(graph, {"": POOLS["small"]}, schedule), saved=saved)
    assert found["simulate"][0].restored.get("positions") == kept
    assert found["train_ppo"][0].restored == {"iteration": 2, "state": "adam"}
    assert found["generate"][0].restored == {"iteration": 2}


def test_the_workflow_file_can_be_imported_by_workers(graph: Graph) -> None:
    assert assigned(placement(graph, POOLS))["simulate"][0].path == [str(Path(WORKFLOWS).parent)]
