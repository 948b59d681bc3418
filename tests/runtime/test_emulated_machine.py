"""The real runtime on an emulated machine: 3 devices and 6 cores that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from ebrl.backends.accelerators.emulated import emulated
from ebrl.errors import PlanError
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import declared
from ebrl.observe.records import write_json
from ebrl.planner.first_plan import first_plan
from ebrl.planner.plans import changed, problem_of
from ebrl.planner.problem import Allocation, Device, Node
from ebrl.planner.profile import Profile
from ebrl.resources.machine_spec import machine
from ebrl.workflows.emulated import emulated as workflow

from ..planner.profiles import made, point
from .conftest import Outcome

FILE = Path(__file__).parents[2] / "workflows" / "emulated.py"
POOL = emulated(machine("3xH100,6c"))
MODEL = str(POOL.gpus[0].name)
pytestmark = pytest.mark.slow


def profile() -> Profile:
    """Chunks of 40 ms; an iteration of 24 chunk-steps trains for 0.3 s on two devices."""

    def on_device(percent: float, batch: int, seconds: float) -> object:
        return point(percent, batch, seconds, resource=MODEL, p99_s=1.1 * seconds, memory_mib=40_000)

    stages = {
        "simulation": (point(1, 1, 0.04, p99_s=0.05),),
        "generation": (on_device(100, 1, 0.02), on_device(100, 8, 0.06)),
        "training": (on_device(100, 1, 0.1), on_device(100, 12, 0.3)),
    }
    return made(chunk=4, stages=stages, reset_s=0.05, episode=5.0, episode_spread=0.5, swap_s=0.2, publish_s=0.1)


def planned(path: Path, schedule: str, generation: dict[str, int], training: dict[str, int]) -> Plan:
    graph = graph_of(path)
    plan, costs = first_plan(graph, POOL, schedule), profile()
    problem = problem_of(
        graph,
        plan,
        POOL,
        simulation=costs.costs("simulation"),
        generation=costs.costs("generation"),
        training=costs.costs("training"),
        iteration=24,
    )
    devices = tuple(Device(uuid=gpu.uuid, model=MODEL, memory_mib=float(gpu.memory_mib or 0)) for gpu in POOL.gpus)
    problem = attrs.evolve(problem, nodes=(Node(cores=POOL.cores, devices=devices),))
    return changed(plan, Allocation(generation=generation, training=training, batch=2), graph, POOL, problem)


def graph_of(path: Path) -> Graph:
    return workflow(profile=str(path), num_envs=8, num_steps=3, iterations=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_json(tmp_path / "profile.json", profile())
    return tmp_path / "profile.json"


@pytest.mark.parametrize(
    ("schedule", "generation", "training"),
    [
        ("ebrl", {"EMULATED-0": 40, "EMULATED-2": 100}, {"EMULATED-0": 60, "EMULATED-1": 100}),
        ("colocated", {"EMULATED-0": 100, "EMULATED-1": 100}, {"EMULATED-0": 100, "EMULATED-1": 100}),
    ],
)
def test_a_schedule_takes_its_time(
    launch: Callable[..., Outcome], path: Path, schedule: str, generation: dict[str, int], training: dict[str, int]
) -> None:
    settings = (f"profile={path}", "num_envs=8", "num_steps=3", "iterations=3")
    plan = planned(path, schedule, generation, training)
    outcome = launch("emulated", *settings, file=FILE, plan=plan, resources=POOL)
    assert (outcome.summary["status"], outcome.summary["iterations"]) == ("finished", 3)
    (started,) = outcome.of("started")
    assert [name for name in started["workers"] if "generate" in name] == ["generate-0", "generate-1"]
    steps = outcome.of("iteration")
    trained_s = sum(step["train_s"] for step in steps) / 3
    # 12 chunk-steps on each device, at 60 % of one of them under `ebrl`; swapping comes on top where they take turns.
    least_s = 0.2 + 0.3 if declared(schedule).devices == "in turn" else 0.3 / 0.6
    assert 0.8 * least_s < trained_s < 4 * least_s
    assert outcome.summary["wall_s"] > 3 * 0.8 * least_s


def test_more_memory_than_a_device_has_is_refused_before_anything_starts(
    launch: Callable[..., Outcome], path: Path
) -> None:
    plan = planned(path, "ebrl", {"EMULATED-0": 40}, {"EMULATED-0": 60})
    full = attrs.evolve(POOL, gpus=tuple(attrs.evolve(gpu, memory_mib=79_999) for gpu in POOL.gpus))
    settings = (f"profile={path}", "num_envs=8", "num_steps=3", "iterations=3")
    with pytest.raises(PlanError, match="asks for 80000 MiB of the GPU EMULATED-0, which has 79999"):
        launch("emulated", *settings, file=FILE, plan=plan, resources=full)
