"""Whole runs: results, determinism, what the scheduler shows, how errors of stages end a run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from ebrl.errors import EbrlError, SimulatorError, SimulatorNotFound, StageError, UsageError
from ebrl.resources.pool import ResourcePool

from .conftest import WORKFLOWS, Outcome

OWN = WORKFLOWS.parent / "own_simulators.py"


def test_a_run_leaves_what_it_promises(launch: Callable[..., Outcome]) -> None:
    outcome = launch("judged")
    assert [row["iteration"] for row in outcome.metrics()] == [0, 1, 2, 3]
    assert [report["iteration"] for report in outcome.of("report")] == [2, 4]
    summary = json.loads((outcome.folder / "summary.json").read_text())
    assert (summary["status"], summary["env_steps"], summary["iterations"]) == ("finished", 4 * 4 * 16, 4)
    assert summary["max_staleness_seen"] <= 1
    files = {path.name for path in outcome.folder.iterdir()}
    assert files >= {"config.json", "plan.json", "events.jsonl", "metrics.jsonl", "checkpoints", "policy.safetensors"}
    assert (outcome.folder / "checkpoints" / "000004" / "weights.safetensors").exists()


def test_the_same_seed_gives_the_same_metrics(launch: Callable[..., Outcome]) -> None:
    sync = launch(schedule="sync", seed=3)
    again = launch(schedule="sync", seed=3)
    barrier_free = launch("small", "max_staleness=0", seed=3)
    other = launch(schedule="sync", seed=4)
    assert sync.metrics() == again.metrics()
    assert barrier_free.metrics() == sync.metrics()
    assert other.metrics() != sync.metrics()


def test_a_resumed_run_equals_an_uninterrupted_one(launch: Callable[..., Outcome]) -> None:
    whole = launch(schedule="sync")
    part = launch("small", "iterations=3", schedule="sync")
    resumed = launch(schedule="sync", resume=part.folder)
    assert resumed.metrics() == whole.metrics()
    assert resumed.summary["env_steps"] == whole.summary["env_steps"]


def test_the_scheduler_shows_stages_and_annotations(launch: Callable[..., Outcome]) -> None:
    seen: dict[str, Any] = {}

    def look(run: Any, iteration: Any) -> None:
        seen.update(run._cluster.client.run_on_scheduler(_scheduler_view))
        seen["link"] = run.dashboard_link

    outcome = launch("judged", during=look)
    assert {"simulate", "generate", "train_ppo"} <= seen["groups"]
    assert set(seen["resources"]) == {"simulate-0", "generate-0", "train_ppo-0", "shaped-0", "evaluate-0"}
    cores = len(outcome.of("started")[0]["plan"].stage("simulate").quota.cores)
    assert all(resources["CPU"] == cores for resources in seen["resources"].values())
    assert all(resources[name] >= 1 for name, resources in seen["resources"].items())
    assert seen["link"].startswith("http://127.0.0.1:")
    assert all(address.startswith("tcp://127.0.0.1:") for address in seen["addresses"])


def _scheduler_view(dask_scheduler: Any) -> dict[str, Any]:
    return {
        "groups": set(dask_scheduler.task_prefixes),
        "resources": {worker.name: dict(worker.resources) for worker in dask_scheduler.workers.values()},
        "addresses": [dask_scheduler.address, *dask_scheduler.workers],
    }


@pytest.mark.parametrize(("how", "first"), [("raise", "RuntimeError: too many cooks"), ("exit", "SystemExit: 3")])
def test_a_stage_that_raises_ends_the_run_with_its_cause(launch: Callable[..., Outcome], how: str, first: str) -> None:
    with pytest.raises(StageError) as caught:
        launch("failing", f"how={how}")
    assert caught.value.where == "fussy"
    assert caught.value.message == first
    assert "small.py" in caught.value.detail
    assert "hosting.py" not in caught.value.detail


def test_a_stage_may_drop_items(launch: Callable[..., Outcome]) -> None:
    outcome = launch("filtered")
    assert [row["slow_train/skipped"] for row in outcome.metrics()] == [0.0] * 4


def test_dropping_everything_is_bounded_and_reported(launch: Callable[..., Outcome]) -> None:
    with pytest.raises(StageError) as caught:
        launch("filtered", "keep_every=0", "iterations=100")
    assert caught.value.where == "slow_train"
    assert caught.value.message == "got no trajectory in 20 iterations in a row"


@pytest.mark.parametrize(
    ("how", "where", "message"),
    [
        ("type", "odd.output", "returned str; expected Trajectory or None"),
        ("generator", "several", "RuntimeError: in a generator"),
        ("weights", "ruin", "the weights 'actor/0/weight' are not finite after iteration 0"),
    ],
)
def test_what_a_stage_returns_is_checked_at_its_own_border(
    launch: Callable[..., Outcome], how: str, where: str, message: str
) -> None:
    with pytest.raises(StageError) as caught:
        launch("faulty", f"where={how}")
    assert (caught.value.where, caught.value.message) == (where, message)


def test_an_unknown_environment_is_one_clear_error(launch: Callable[..., Outcome]) -> None:
    with pytest.raises(SimulatorNotFound) as caught:
        launch("small", "task=gymnasium:Pendulom-v1")
    assert caught.value.render() == (
        "error: simulate.env: no environment 'Pendulom-v1' in Gymnasium's registry\n"
        "  hint: did you mean 'Pendulum-v1' or 'phys2d/Pendulum-v0' or 'InvertedPendulum-v5'?"
    )


def test_a_launch_at_module_level_is_refused(tmp_path: Any) -> None:
    from ebrl.graph.load import load_workflow

    file = tmp_path / "eager.py"
    file.write_text(WORKFLOWS.read_text() + "\n\nebrl.launch(small())\n")
    (tmp_path / "rewards.py").write_text((WORKFLOWS.parent / "rewards.py").read_text())
    with pytest.raises(UsageError, match="a run would start while the workflow file is imported"):
        load_workflow(f"{file}:small")


@pytest.mark.parametrize("task", ["own_pendulum:Own", "own_pendulum:Own?goal=0.1", "own:anything"])
def test_simulators_of_the_users_own(launch: Callable[..., Outcome], task: str) -> None:
    assert launch("own_simulators", f"task={task}", file=OWN).summary["status"] == "finished"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("own:x?gaol=0.1", "own:x: its factory does not take the target and these options: .* 'gaol'"),
        ("own_pendulum:Nope", "own_pendulum has no 'Nope'"),
    ],
)
def test_simulators_of_the_users_own_that_cannot_be_made(
    launch: Callable[..., Outcome], task: str, message: str
) -> None:
    with pytest.raises(SimulatorError) as caught:
        launch("own_simulators", f"task={task}", file=OWN)
    assert re.search(message, caught.value.message) and "birth.py" not in caught.value.detail


def test_a_run_uses_the_part_of_the_machine_that_it_is_given(launch: Callable[..., Outcome]) -> None:
    core = max(ResourcePool.discover().cores)
    outcome = launch("small", "iterations=1", resources=ResourcePool.discover(cores=[core]))
    plan = outcome.of("started")[0]["plan"]
    assert {stage.quota.cores for stage in plan.stages} == {(core,)}
    assert outcome.of("started")[0]["workers"]["simulate-0"]["CPU"] == 1.0


@pytest.mark.parametrize("after", [1, 5])
@pytest.mark.parametrize("whole", [True, False])
def test_a_run_directory_that_is_removed_ends_the_run(launch: Callable[..., Outcome], after: int, whole: bool) -> None:
    """In the middle, or behind the last iteration, before checkpoint and weights are written."""
    outcomes: list[Any] = []

    def during(run: Any, iteration: Any) -> None:
        if iteration.index == after:
            gone = run.run_dir if whole else run.run_dir / "metrics.jsonl"
            outcomes.append((run, gone))
            shutil.rmtree(run.run_dir)
            if not whole:
                run.run_dir.mkdir()

    with pytest.raises(EbrlError) as caught:
        launch("small", during=during)
    ((run, gone),) = outcomes
    assert caught.value.message == f"{gone} was removed while the run wrote to it"
    assert (run.summary["status"], run.summary["reason"]) == ("failed", caught.value.message)
    assert run.summary["iterations"] <= after + 2
