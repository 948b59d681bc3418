"""Stage workers that end by themselves, and what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from ebrl.errors import StageError
from ebrl.runtime.death import Death, crash_frames
from ebrl.runtime.flight import Task
from ebrl.runtime.replacements import Replacements

from .conftest import WORKFLOWS, Outcome, ebrl_run, wait_for_iterations


@pytest.mark.parametrize(
    ("how", "message", "detail"),
    [
        ("exit", r"its worker exited with code 3 \(the second in a row to end, in dying-0-\d\)", ""),
        ("crash", r"its worker was killed by SIGSEGV \(", 'small.py", line'),
        ("memory", r"out of memory: its worker held [3-9]\d\d MiB, more than the 300 MiB of memory_mib \(", ""),
    ],
)
def test_how_a_worker_ended_is_said_at_the_second_time(
    launch: Callable[..., Outcome], how: str, message: str, detail: str
) -> None:
    with pytest.raises(StageError, match=message) as caught:
        launch("deadly", f"how={how}")
    assert caught.value.where == "dying"
    assert detail in caught.value.detail


def test_a_lost_trainer_is_explained_by_the_end_of_its_worker(launch: Callable[..., Outcome]) -> None:
    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 2:
            os.kill(run._cluster._nannies["train_ppo-0"].pid, signal.SIGKILL)

    with pytest.raises(StageError, match=r"its worker was killed by SIGKILL .*, and with it the weights in training"):
        launch("small", "iterations=8", "num_steps=64", during=during)


STOPPED = "its worker was stopped by a signal, did not go on, and was ended"


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_replaced(launch: Callable[..., Outcome]) -> None:
    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 2:
            os.kill(run._cluster._nannies["simulate-0"].pid, signal.SIGSTOP)

    outcome = launch("small", "iterations=8", "num_steps=64", during=during)
    assert (outcome.summary["status"], outcome.summary["iterations"]) == ("finished", 8)
    assert outcome.of("worker_replaced") == [{"worker": "simulate-0", "cause": STOPPED}]


@pytest.mark.slow
def test_a_stopped_trainer_ends_the_run_with_its_cause(launch: Callable[..., Outcome]) -> None:
    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 2:
            os.kill(run._cluster._nannies["train_ppo-0"].pid, signal.SIGSTOP)

    with pytest.raises(StageError) as caught:
        launch("small", "iterations=8", "num_steps=64", during=during)
    assert caught.value.message == f"{STOPPED}, and with it the weights in training are lost"
    assert caught.value.hint.startswith("whoever stops a worker (SIGSTOP) must let it go on within seconds; ")


def test_a_worker_that_goes_on_again_is_left_alone(launch: Callable[..., Outcome]) -> None:
    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 2:
            pid = run._cluster._nannies["simulate-0"].pid
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2.0)
            os.kill(pid, signal.SIGCONT)

    outcome = launch("small", "iterations=4", "num_steps=64", during=during)
    assert outcome.summary["status"] == "finished"
    assert outcome.of("worker_replaced") == outcome.of("environment_lost") == []


def test_the_weights_stay_with_their_trainer(launch: Callable[..., Outcome]) -> None:
    """Dask's memory manager would leave the copy of the worker that generates, which may be killed."""
    managed = []

    def during(run: Any, iteration: Any) -> None:
        managed.append(run._cluster.client.amm.running())

    launch("small", "iterations=1", during=during)
    assert managed == [False]


def _processes(folder: Path, count: int) -> list[psutil.Process]:
    """Those that a stage started, of which there are at least `count`."""
    found = [psutil.Process(int(entry.name)) for entry in folder.iterdir() if psutil.pid_exists(int(entry.name))]
    assert len(found) >= count
    return found


def _assert_ended(processes: list[psutil.Process]) -> None:
    def alive() -> list[psutil.Process]:
        return [process for process in processes if _lives(process)]

    psutil.wait_procs(alive(), timeout=5)
    assert not alive()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_stage_started_ends_with_its_worker(launch: Callable[..., Outcome], tmp_path: Path) -> None:
    left, killed = tmp_path / "left", []
    left.mkdir()

    def during(run: Any, iteration: Any) -> None:
        if iteration.index == 0:
            killed.extend(_processes(left, 1))
            os.kill(run._cluster._nannies["dying-0"].pid, signal.SIGKILL)

    processes: list[psutil.Process] = []
    launch("deadly", "how=process", f"folder={left}", during=during)
    _assert_ended(killed)
    for entry in left.iterdir():
        if psutil.pid_exists(int(entry.name)):
            processes.append(psutil.Process(int(entry.name)))
    _assert_ended(processes)


def test_what_a_stage_started_ends_with_a_killed_driver(tmp_path: Path) -> None:
    left, folder = tmp_path / "left", tmp_path / "run"
    left.mkdir()
    settings = ["--set", "how=process", "--set", f"folder={left}", "--set", "iterations=500"]
    driver = ebrl_run(f"{WORKFLOWS}:deadly", *settings, "--run-dir", str(folder), cwd=tmp_path)
    try:
        wait_for_iterations(folder, 1, driver)
        processes = _processes(left, 1)
    finally:
        driver.kill()
        driver.communicate()
    _assert_ended(processes)


DEATH = Death(worker="w", pid=7, exit_code=-9, resident_mib=1234, limit_mib=2048, quota=False)


def test_out_of_memory_names_who_ended_it_and_whose_limit_it_was() -> None:
    kernel = attrs.evolve(DEATH, cause="kernel")
    assert kernel.message == (
        "out of memory: its worker held 1,234 MiB of the 2,048 MiB of its machine or control group, "
        "and the kernel killed it"
    )
    assert "of the 2,048 MiB of memory_mib, and" in attrs.evolve(kernel, quota=True).message
    assert DEATH.message == "its worker was killed by SIGKILL while it held 1,234 of 2,048 MiB"
    assert "dmesg" in DEATH.hint
    assert attrs.evolve(DEATH, exit_code=-64).message == "its worker was killed by SIGRTMAX"
    assert attrs.evolve(DEATH, exit_code=-99).message == "its worker was killed by signal 99"


def test_deaths_with_work_done_between_them_are_no_reason_to_give_up() -> None:
    replacements, task = Replacements(), Task("stage-0-1", None, "stage", "stage-0")  # type: ignore[arg-type]
    assert replacements.resident("stage-0", 7) is None
    replacements.died("stage-0", DEATH)
    assert replacements.resident("stage-0", 8) == DEATH.message
    assert replacements.resident("stage-0", 9) == "process 8 ended"  # nobody has told of it
    replacements.finished("stage-0")
    replacements.died("stage-0", DEATH)
    assert replacements.hopeless(task) is None
    replacements.died("stage-0", DEATH)
    error = replacements.hopeless(task)
    assert error is not None and error.where == "stage"


def test_of_a_crash_the_user_sees_the_own_frames_in_order() -> None:
    script = (
        "import ctypes, faulthandler\n"
        "faulthandler.enable()\n"
        "from ebrl.graph.load import loading\n"
        "import ebrl.graph.items as engine\n"
        "def stage(): ctypes.string_at(0)\n"
        "exec(compile('call()', engine.__file__, 'exec'), {'call': stage})\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    lines = crash_frames(ended.stderr).splitlines()
    assert [line.rpartition(" in ")[2] for line in lines] == ["stage", "string_at"]
