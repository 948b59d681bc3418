"""What `ebrl.launch` and its `Run` refuse before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ebrl
from ebrl.errors import UsageError
from ebrl.graph.load import load_workflow
from ebrl.planner.first_plan import first_plan

from .conftest import WORKFLOWS


@pytest.fixture
def workflow() -> Any:
    return load_workflow(f"{WORKFLOWS}:small")


def refused(call: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        call()
    assert "test_request.py" in caught.value.place
    return caught.value


def test_a_workflow_is_no_graph(workflow: Any) -> None:
    error = refused(lambda: ebrl.launch(workflow))
    assert error.message == "'small' is a workflow, and a run needs its graph"
    assert error.hint == "call it: ebrl.launch(small())"
    assert refused(lambda: ebrl.launch("small.py")).message == "a run needs a graph, got str"


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True, "1", None])
def test_seeds(workflow: Any, seed: Any) -> None:
    error = refused(lambda: ebrl.launch(workflow(), seed=seed))
    assert error.message == f"seed must be a whole number from 0 to 9223372036854775807, got {seed!r}"


def test_what_is_no_schedule_and_no_path(workflow: Any) -> None:
    error = refused(lambda: ebrl.launch(workflow(), schedule="ebrl2"))
    assert (error.message, error.hint) == ("there is no schedule 'ebrl2'", "did you mean 'ebrl'?")
    assert refused(lambda: ebrl.launch(workflow(), run_dir=5)).message == "run_dir must be a path, got 5"


def test_what_no_schedule_can_do_without(workflow: Any) -> None:
    error = refused(lambda: ebrl.launch(workflow(), without=["rebind"]))
    assert (error.message, error.hint) == (
        "there is no mechanism 'rebind' to go without", "did you mean 'rebinding'?"
    )  # fmt: skip
    error = refused(lambda: ebrl.launch(workflow(), without="overlap"))
    assert (error.message, error.hint) == ("without must be several names, got 'overlap'", "write without=['overlap']")


def test_a_plan_says_what_it_goes_without(workflow: Any) -> None:
    plan = first_plan(workflow(), ebrl.ResourcePool.discover(), "sync", ["rebinding"])
    error = refused(lambda: ebrl.launch(workflow(), plan=plan, without=["overlap"]))
    assert error.message == "the plan goes without rebinding, asked for is overlap"
    assert refused(lambda: ebrl.launch(workflow(), plan=plan, without=[])).message.endswith("asked for is nothing")
    assert refused(lambda: ebrl.launch(workflow(), plan=plan, schedule="async")).message.startswith("the plan has the")
    ebrl.launch(workflow(), plan=plan)
    ebrl.launch(workflow(), plan=plan, schedule="sync", without=("rebinding",))


def test_resources_are_of_this_machine(workflow: Any) -> None:
    error = refused(lambda: ebrl.launch(workflow(), resources="0-7"))
    assert error.message == "resources must be a ResourcePool, got '0-7'"
    pool = ebrl.ResourcePool.discover()
    error = refused(lambda: ebrl.launch(workflow(), resources=pool, scheduler="tcp://127.0.0.1:8786"))
    assert error.message == "resources cannot be combined with scheduler"


def test_a_resumed_run_has_its_directory(workflow: Any, tmp_path: Path) -> None:
    error = refused(lambda: ebrl.launch(workflow(), run_dir=tmp_path / "a", resume=tmp_path / "b"))
    assert error.message == "run_dir cannot be combined with resume"


@pytest.mark.parametrize("use", [iter, lambda run: run.plan, lambda run: run.run_dir])
def test_a_run_that_was_not_started(workflow: Any, use: Any) -> None:
    run = ebrl.launch(workflow())
    with pytest.raises(UsageError) as caught:
        use(run)
    assert caught.value.message == "this run has not been started"
    assert caught.value.hint == "write `with ebrl.launch(graph) as run:` and use it inside"


def test_a_run_directory_without_a_name(workflow: Any) -> None:
    with pytest.raises(UsageError, match="the run directory has an empty name"), ebrl.launch(workflow(), run_dir=""):
        pass
