"""Real kills: an environment, a worker, the driver, Ctrl-C. A crash costs what it must and no more."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ebrl.runtime.checkpoint import newest

from .conftest import WORKFLOWS, Outcome, ebrl_run, session_processes, wait_for_iterations


def _kill_worker(run: Any, name: str) -> None:
    pid = run._cluster._nannies[name].pid
    os.kill(pid, signal.SIGKILL)


def _kill_environment(run: Any) -> None:
    worker = psutil.Process(run._cluster._nannies["simulate-0"].pid)
    warm = next(child for child in worker.children() if "ebrl.runtime.warm_child" in child.cmdline())
    victim = warm.children()[0]
    victim.send_signal(signal.SIGKILL)


def test_a_killed_environment_costs_one_trajectory(launch: Callable[..., Outcome]) -> None:
    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 1:
            _kill_environment(run)

    outcome = launch("small", "iterations=12", "num_steps=64", during=during)
    assert outcome.summary["status"] == "finished"
    (lost,) = outcome.of("environment_lost")
    assert lost["message"] == "environment process was killed by SIGKILL"
    assert (lost["stage"], lost["simulator"]) == ("simulate", "gymnasium:Pendulum-v1")
    whole = 12 * 4 * 64
    assert whole - 64 <= outcome.summary["env_steps"] <= whole  # an idle environment loses nothing


@pytest.mark.parametrize("worker", ["generate-0", "simulate-0"])
def test_a_killed_worker_is_replaced(launch: Callable[..., Outcome], worker: str) -> None:
    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 2:
            _kill_worker(run, worker)

    outcome = launch("small", "iterations=12", "num_steps=64", during=during)
    assert outcome.summary["status"] == "finished"
    assert outcome.summary["iterations"] == 12
    assert [replaced["worker"] for replaced in outcome.of("worker_replaced")] == [worker]
    assert outcome.summary["max_staleness_seen"] <= 1


def test_a_killed_driver_leaves_no_process_and_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    target = f"{WORKFLOWS}:small"
    first = ebrl_run(target, "--set", "iterations=500", "--run-dir", str(folder), cwd=tmp_path, start_new_session=True)
    try:
        wait_for_iterations(folder, 12, first)
        family = psutil.Process(first.pid).children(recursive=True)
    finally:
        first.kill()
    first.communicate()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive, [process.cmdline() for process in alive]
    again = ebrl_run("--resume", str(folder), "--set", "iterations=14", cwd=tmp_path)
    output, _ = again.communicate(timeout=90)
    assert again.returncode == 0, output
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == list(range(14))
    assert [row["env_steps"] for row in rows] == [64 * (number + 1) for number in range(14)]
    assert all(row["staleness_max"] <= 1 for row in rows)


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_in_a_terminal(tmp_path: Path, presses: int) -> None:
    """The terminal sends the signal to the whole process group, as a real one does."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "ebrl", "run", f"{WORKFLOWS}:slow", "--run-dir", str(folder)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, command)
    process = psutil.Process(pid)
    try:
        _read_until(terminal, lambda: _lines(folder / "metrics.jsonl") >= 3)
        family = process.children(recursive=True)
        began_s = time.monotonic()
        for _ in range(presses):
            os.write(terminal, b"\x03")
            time.sleep(0.1)
        _read_until(terminal, lambda: process.status() == psutil.STATUS_ZOMBIE)
        assert time.monotonic() - began_s < 10
    finally:
        os.close(terminal)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL) if process.is_running() and process.status() != "zombie" else None
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive, [process.cmdline() for process in alive]
    if presses == 1:
        summary = json.loads((folder / "summary.json").read_text())
        assert summary["status"] == "interrupted"
        assert Path(summary["checkpoint"]).exists()


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def _read_until(terminal: int, done: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Drain the terminal, so that the program never blocks on its output."""
    os.set_blocking(terminal, False)
    deadline = time.monotonic() + timeout_s
    shown = b""
    while not done():
        with contextlib.suppress(BlockingIOError, OSError):
            shown += os.read(terminal, 1 << 16)
        assert time.monotonic() < deadline, shown.decode(errors="replace")[-3000:]
        time.sleep(0.05)


def test_two_runs_at_once(tmp_path: Path) -> None:
    runs = [
        ebrl_run(f"{WORKFLOWS}:small", "--run-dir", str(tmp_path / name), cwd=tmp_path, start_new_session=True)
        for name in ("a", "b")
    ]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    links = [
        event["dashboard_link"]
        for name in ("a", "b")
        for event in map(json.loads, (tmp_path / name / "events.jsonl").read_text().splitlines())
        if event["kind"] == "started"
    ]
    assert len(set(links)) == 2
    assert all(link in output for link, output in zip(links, outputs, strict=True))
    _, alive = psutil.wait_procs([process for run in runs for process in session_processes(run.pid)], timeout=5)
    assert not alive


def test_a_missing_environment_through_the_command_line(tmp_path: Path) -> None:
    run = ebrl_run(f"{WORKFLOWS}:small", "--set", "task=gymnasium:Pendulom-v1", cwd=tmp_path, start_new_session=True)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 2
    assert "no environment 'Pendulom-v1' in Gymnasium's registry" in output
    assert "Traceback" not in output
    _, alive = psutil.wait_procs(session_processes(run.pid), timeout=5)
    assert not alive


def test_a_checkpoint_holds_whole_iterations(launch: Callable[..., Outcome]) -> None:
    """Interrupted while training: the iteration is awaited, and counters, metrics and weights belong together."""
    folders = []

    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 3:
            folders.append(run.run_dir)
            run._driver._pump()
            time.sleep(1.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch("small", "iterations=100", "num_steps=64", during=during)
    (folder,) = folders
    saved = newest(folder / "checkpoints", "small")
    assert saved.iteration == saved.states["train_ppo"]["version"][1] == 5
    assert saved.counters["env_steps"] == 5 * 4 * 64
    assert _lines(folder / "metrics.jsonl") == 5


def test_ctrl_c_while_simulators_start(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = ebrl_run(f"{WORKFLOWS}:slow", "--run-dir", str(folder), cwd=tmp_path, start_new_session=True)
    while not (folder / "config.json").exists():
        time.sleep(0.02)
    time.sleep(0.5)
    began_s = time.monotonic()
    os.killpg(run.pid, signal.SIGINT)
    output, _ = run.communicate(timeout=30)
    assert time.monotonic() - began_s < 10
    assert run.returncode == 130, output
    assert "Traceback" not in output
    _, alive = psutil.wait_procs(session_processes(run.pid), timeout=5)
    assert not alive


@pytest.mark.parametrize("after_s", [0.4, 0.8, 1.2, 2.0, 3.0])
def test_two_ctrl_c_while_the_program_starts(tmp_path: Path, after_s: float) -> None:
    """The moments are those of Python's start, of imports, of the cluster's and of the workers' start."""
    run = ebrl_run(f"{WORKFLOWS}:slow", cwd=tmp_path, start_new_session=True)
    time.sleep(after_s)
    for _ in range(2):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGINT)
        time.sleep(0.1)
    output, _ = run.communicate(timeout=30)
    assert run.returncode == 130, output
    assert "Traceback" not in output and output.splitlines()[-1].startswith("interrupted"), output
    _, alive = psutil.wait_procs(session_processes(run.pid), timeout=5)
    assert not alive
