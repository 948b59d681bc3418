"""A cluster of two nodes: a scheduler and two node agents, each in a process of its own, on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from distributed import Client

from ebrl.errors import EbrlError, StageError, UsageError
from ebrl.graph.plan import Plan, Quota, StagePlan
from ebrl.runtime import bridge, channel, scheduler_address
from ebrl.runtime import cluster as cluster_module
from ebrl.runtime.cluster import Cluster, WorkerSpec
from ebrl.runtime.placement import place

from .conftest import WORKFLOWS, Outcome, ebrl_run, wait_for_iterations


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
        assert not run._cluster.client.amm.running()

    outcome = launch("small", "max_staleness=0", scheduler=two_nodes, during=look)
    assert outcome.summary["status"] == "finished"
    names = {name.partition(":")[2]: node for name, node in where.items()}
    assert names["simulate-0"] != names["generate-0"] == names["train_ppo-0"]
    # What travels between nodes is what stays in shared memory on one.
    assert launch("small", "max_staleness=0").metrics() == outcome.metrics()


def _kill(run: Any, replica: str) -> int:
    """SIGKILL the process of a stage worker, on whatever node; returns its pid."""
    client = run._cluster.client
    (address,) = (address for name, address in run._cluster.addresses().items() if name.endswith(f":{replica}"))
    pid: int = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGKILL)
    return pid


@pytest.mark.parametrize("replica", ["simulate-0", "generate-0"])
def test_a_worker_killed_on_its_node_is_replaced(two_nodes: str, launch: Callable[..., Outcome], replica: str) -> None:
    _wait_for_workers(two_nodes, 2)

    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 2:
            _kill(run, replica)

    outcome = launch("small", "iterations=8", "num_steps=64", scheduler=two_nodes, during=during)
    assert (outcome.summary["status"], outcome.summary["iterations"]) == ("finished", 8)
    assert [replaced["worker"] for replaced in outcome.of("worker_replaced")] == [replica]


def test_a_bridge_to_an_engine_that_does_not_listen_yet_is_torn_down() -> None:
    """So that the other side comes again, instead of waiting for an answer for ever."""
    comm = Mock()
    asyncio.run(bridge._export(comm, channel.address("no-run", "simulate-0")))
    comm.abort.assert_called_once_with()
    comm.write.assert_not_called()


def test_a_trainer_killed_on_its_node_ends_the_run(two_nodes: str, launch: Callable[..., Outcome]) -> None:
    """Its weights are gone; a checkpoint has older ones."""
    _wait_for_workers(two_nodes, 2)

    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 2:
            _kill(run, "train_ppo-0")

    with pytest.raises(StageError, match=r"its worker was killed by SIGKILL .*, and with it the weights in training"):
        launch("small", "iterations=8", "num_steps=64", scheduler=two_nodes, during=during)


def test_a_killed_driver_leaves_nothing_on_the_nodes(two_nodes: str, tmp_path: Path) -> None:
    _wait_for_workers(two_nodes, 2)
    before = _family()
    folder = tmp_path / "run"
    settings = ["--set", "iterations=500", "--scheduler", two_nodes, "--run-dir", str(folder)]
    driver = ebrl_run(f"{WORKFLOWS}:small", *settings, cwd=tmp_path)
    try:
        wait_for_iterations(folder, 3, driver)
        left = [process for process in _family() - before if process.pid != driver.pid]
        assert len(left) >= 3 + 4  # stage workers and simulators
    finally:
        driver.kill()
    driver.communicate()
    _, alive = psutil.wait_procs([process for process in left if not _is_tracker(process)], timeout=15)
    assert not alive, [process.cmdline() for process in alive]
    _wait_for_workers(two_nodes, 2)


def test_workers_of_a_start_that_fails_are_ended(two_nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _wait_for_workers(two_nodes, 2)
    monkeypatch.setattr(cluster_module, "_ANSWER_S", 8.0)
    nowhere = "tcp://127.0.0.1:9"
    with pytest.raises(EbrlError, match=f"the node at {nowhere} did not answer within 8 s"), Cluster(two_nodes) as it:
        node = next(iter(it.pools()))
        it.launch({node: [_spec("one")], nowhere: [_spec("two")]})
    _wait_for_workers(two_nodes, 2)


def test_a_start_that_is_interrupted_ends_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left would show in `nothing_left_behind`."""

    async def start(*arguments: Any) -> None:
        starting = asyncio.ensure_future(launch_workers(*arguments))
        await asyncio.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)
        await starting

    launch_workers = cluster_module._launch
    monkeypatch.setattr(cluster_module, "_launch", start)
    with pytest.raises(KeyboardInterrupt), Cluster() as it:
        it.launch({"": [_spec("one"), _spec("two")]})


def test_workers_print_to_the_log_folder(tmp_path: Path) -> None:
    with Cluster() as it:
        it.launch({"": [_spec("talker", EBRL_LOGS=str(tmp_path / "logs"))]})
        it.client.submit(print, "by Python").result(30)
        it.client.submit(os.write, 2, b"below Python").result(30)
    assert (tmp_path / "logs" / "talker.log").read_text() == "by Python\nbelow Python"


@pytest.fixture
def strangers() -> Iterator[dict[str, str]]:
    """Addresses of what is no scheduler."""
    with (
        HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as web,
        socket.create_server(("127.0.0.1", 0)) as mute,
        socket.socket() as closed,
    ):
        closed.bind(("127.0.0.1", 0))
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield {
            "web": f"tcp://127.0.0.1:{web.server_port}",
            "url": f"http://127.0.0.1:{web.server_port}",
            "mute": f"tcp://127.0.0.1:{mute.getsockname()[1]}",
            "closed": f"tcp://127.0.0.1:{closed.getsockname()[1]}",
            "garbage": "garbage",
            "unknown": "tcp://no-such-host.invalid:8786",
        }
        web.shutdown()


@pytest.mark.parametrize("who", ["web", "url", "mute", "closed", "garbage", "unknown"])
def test_no_scheduler_at_the_address(
    launch: Callable[..., Outcome], strangers: dict[str, str], monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setattr(scheduler_address, "ANSWER_S", 1.0)
    message = re.escape(f"no Dask scheduler answers at {strangers[who]}: ")
    with pytest.raises(UsageError, match=message):
        launch(scheduler=strangers[who])
    with pytest.raises(UsageError, match=message):
        cluster_module.join(strangers[who])


def test_a_worker_is_no_scheduler(two_nodes: str, launch: Callable[..., Outcome]) -> None:
    _wait_for_workers(two_nodes, 2)
    with Client(two_nodes, set_as_default=False) as client:
        (address, _) = client.scheduler_info(n_workers=-1)["workers"]
    with pytest.raises(UsageError, match=f"no Dask scheduler answers at {address}: that is a Dask worker"):
        launch(scheduler=address)


def test_a_cluster_without_nodes_says_how_to_join(scheduler: str, launch: Callable[..., Outcome]) -> None:
    with pytest.raises(UsageError) as caught:
        launch(scheduler=scheduler)
    assert caught.value.hint == f"on every machine run: ebrl worker {scheduler}"


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


def _spec(name: str, **environment: str) -> WorkerSpec:
    return WorkerSpec(name=name, resources={name: 1.0}, threads=1, environment=environment)


def _wait_for_workers(address: str, count: int, timeout_s: float = 30.0) -> None:
    """Until exactly `count` workers, agents included, are connected."""
    deadline = time.monotonic() + timeout_s
    with Client(address, set_as_default=False) as client:
        while len(workers := client.scheduler_info(n_workers=-1)["workers"]) != count:
            assert time.monotonic() < deadline, [info["name"] for info in workers.values()]
            time.sleep(0.1)


def _family() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _is_tracker(process: psutil.Process) -> bool:
    """Whether it is multiprocessing's resource tracker, which stays with the node agent."""
    try:
        return "resource_tracker" in " ".join(process.cmdline())
    except psutil.Error:
        return False
