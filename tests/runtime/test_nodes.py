"""A cluster of two nodes: a scheduler and two node agents, each in a process of its own, on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ebrl.errors import UsageError
from ebrl.graph.plan import Plan, Quota, StagePlan
from ebrl.runtime.run import place

from .conftest import Outcome


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "scheduler.json"
    arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    process = _start("distributed.cli.dask_scheduler", *arguments)
    try:
        while not file.exists() or not file.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"]
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def two_nodes(scheduler: str) -> Iterator[str]:
    agents = [_start("ebrl", "worker", scheduler) for _ in range(2)]
    try:
        yield scheduler
    finally:
        for agent in agents:
            agent.terminate()
        for agent in agents:
            assert agent.wait(15) is not None


def test_simulation_on_one_node_and_generation_on_another(two_nodes: str, launch: Callable[..., Outcome]) -> None:
    _wait_for_workers(two_nodes, 2)
    where: dict[str, Any] = {}

    def look(run: Any, iteration: Any) -> None:
        where.update(run._cluster._remote)

    outcome = launch("small", "max_staleness=0", scheduler=two_nodes, during=look)
    assert outcome.summary["status"] == "finished"
    names = {name.partition(":")[2]: node for name, node in where.items()}
    assert names["simulate-0"] != names["generate-0"] == names["train_ppo-0"]
    # What travels between nodes is what stays in shared memory on one.
    assert launch("small", "max_staleness=0").metrics() == outcome.metrics()


def test_a_cluster_without_nodes_says_how_to_join(scheduler: str, launch: Callable[..., Outcome]) -> None:
    with pytest.raises(UsageError) as caught:
        launch(scheduler=scheduler)
    assert caught.value.hint == f"on every machine run: ebrl worker {scheduler}"


def test_no_scheduler_at_the_address(launch: Callable[..., Outcome]) -> None:
    with pytest.raises(UsageError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        launch(scheduler="tcp://127.0.0.1:9")


def test_simulation_goes_to_the_nodes_that_do_not_train() -> None:
    quota = Quota(cores=(0,))
    plan = Plan(
        workflow="w",
        stages=(
            StagePlan(name="simulate", kind="simulation", quota=quota, replicas=3),
            StagePlan(name="train", kind="training", quota=quota),
        ),
        loops=(),
    )
    assert place(plan, ["gpu", "a", "b"]) == {
        "simulate-0": "a",
        "simulate-1": "b",
        "simulate-2": "gpu",
        "train-0": "gpu",
    }
    assert set(place(plan, [""]).values()) == {""}


def _wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=30)
