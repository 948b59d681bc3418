"""The real runtime on an emulated machine: 3 devices and 6 cores that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from ebrl.backends.accelerators.emulated import emulated
from ebrl.errors import EbrlError, PlanError
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import declared
from ebrl.observe.records import write_json
from ebrl.planner.first_plan import first_plan
from ebrl.planner.plans import changed, problem_of
from ebrl.planner.problem import Allocation, Device, Node
from ebrl.planner.profile import Measured, Profile
from ebrl.resources.machine_spec import machine
from ebrl.workflows.emulated import emulated as workflow

from .conftest import Outcome

FILE = Path(__file__).parents[2] / "workflows" / "emulated.py"
POOL = emulated(machine("3xH100,6c"))
MODEL = str(POOL.gpus[0].name)
pytestmark = pytest.mark.slow


def point(resource: str, quota: float, batch: int, seconds: float) -> Measured:
    return Measured(
        resource=resource, quota=quota, batch=batch, rate=batch / seconds, mean_s=seconds, p50_s=seconds,
        p99_s=1.1 * seconds, seconds=seconds, core_s=seconds, memory_mib=40_000.0, calls=50, interval=0.02,
    )  # fmt: skip


def profile() -> Profile:
    """Chunks of 40 ms; an iteration of 24 chunk-steps trains for 0.3 s on two devices."""
    stages = {
        "simulation": (point("cpu", 1, 1, 0.04),),
        "generation": (point(MODEL, 100, 1, 0.02), point(MODEL, 100, 8, 0.06)),
        "training": (point(MODEL, 100, 1, 0.1), point(MODEL, 100, 12, 0.3)),
    }
    return Profile(
        workflow="emulated", machine="", cores=6, simulator="", policy="", versions={}, created="", environments=8,
        chunk=4, iteration=24, stages=stages, reset_s=0.05, episode=5.0, episode_spread=0.5, swap_s=0.2, publish_s=0.1,
    )  # fmt: skip


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
    first, *_, last = outcome.of("iteration")
    taken_s = (last["wall_s"] - first["wall_s"]) / 2
    # Training: 12 chunk-steps on each device, with 60 % of one of them under `ebrl`. Where they take turns, devices
    # change hands twice and the rollout waits for its weights.
    least_s = 0.3 / 0.6 if declared(schedule).overlap else 0.2 + 0.3 + 0.2 + 0.1
    assert 0.8 * least_s < taken_s < 5 * least_s


def test_without_shares_it_is_said_what_is_missing(launch: Callable[..., Outcome], path: Path) -> None:
    """A run without a profile times the generation before the first chunk: weights must have arrived by then."""
    settings = (f"profile={path}", "num_envs=2", "num_steps=3")
    with pytest.raises(EbrlError, match="gives the generation no share of an emulated device"):
        launch("emulated", *settings, file=FILE, resources=POOL)


def test_more_memory_than_a_device_has_is_refused_before_anything_starts(
    launch: Callable[..., Outcome], path: Path
) -> None:
    plan = planned(path, "ebrl", {"EMULATED-0": 40}, {"EMULATED-0": 60})
    full = attrs.evolve(POOL, gpus=tuple(attrs.evolve(gpu, memory_mib=79_999) for gpu in POOL.gpus))
    settings = (f"profile={path}", "num_envs=8", "num_steps=3", "iterations=3")
    with pytest.raises(PlanError, match="asks for 80000 MiB of the GPU EMULATED-0, which has 79999"):
        launch("emulated", *settings, file=FILE, plan=plan, resources=full)
