"""Environments forked from one warm process, where that is safe, and spawned where it is not."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ebrl.errors import SimulatorError
from ebrl.runtime import environment_pool
from ebrl.runtime import warm as warm_process
from ebrl.runtime.rollout import Deadlines

from .playing import Play, order, same

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "built"


def parents(play: Play) -> set[int]:
    """Who started the environments: the warm process, or this one."""
    play.at_rest()
    return {psutil.Process(pid).ppid() for pid in play.rollout.pids()}


def builders(notes: Path) -> list[int]:
    return [int(line) for line in notes.read_text().splitlines()]


def test_one_simulator_is_built_for_all(notes: Path) -> None:
    with Play(order("forking.Inherited", notes=str(notes)), num_envs=4) as play:
        (warm,) = parents(play)
        assert psutil.Process(warm).ppid() == os.getpid()
        tried, built = builders(notes)  # by a child, whether it may; then to be inherited
        assert built == warm and tried not in (warm, *play.rollout.pids())
        assert len(play.batch()) == 4
        # They are processes as good as those that are spawned: a session each.
        assert [os.getsid(pid) for pid in play.rollout.pids()] == play.rollout.pids()
    assert not psutil.pid_exists(warm)


def test_what_must_not_be_inherited_is_built_after_the_fork(notes: Path) -> None:
    with Play(order("forking.Drawing", notes=str(notes)), num_envs=3) as play:
        (warm,) = parents(play)
        assert warm != os.getpid()
        assert sorted(builders(notes)[1:]) == sorted(play.rollout.pids())
        assert len(play.batch()) == 3


@pytest.mark.parametrize("simulator", ["Unsafe", "Starting", "Refusing"])
def test_where_forking_is_unsafe_all_are_spawned(notes: Path, simulator: str) -> None:
    with Play(order(f"forking.{simulator}", notes=str(notes)), num_envs=3) as play:
        assert parents(play) == {os.getpid()}
        assert sorted(builders(notes)) == sorted(play.rollout.pids())
        assert len(play.batch()) == 3 and not play.lost


def test_a_single_environment_needs_no_warm_process(notes: Path) -> None:
    with Play(order("forking.Inherited", notes=str(notes))) as play:
        assert parents(play) == {os.getpid()}
        assert builders(notes) == play.rollout.pids()


def test_forked_or_spawned_the_trajectories_are_the_same(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(num_envs: int = 3) -> list[object]:
        simulator = order("forking.Inherited", notes=str(notes))
        with Play(simulator, num_envs=num_envs, num_steps=20, settings={"in_order": True}) as play:
            return [*play.batch(), *play.batch()]

    forked = batches()
    monkeypatch.setattr(environment_pool.sys, "platform", "elsewhere")
    assert same(forked, batches())  # type: ignore[arg-type]


def test_siblings_draw_different_numbers_from_global_generators() -> None:
    with Play(order("forking.Careless"), num_envs=3, num_steps=2) as play:
        first = [trajectory.observations["state"][0].tolist() for trajectory in play.batch()]
    assert len({number for numbers in first for number in numbers}) == 6


def test_a_lost_environment_is_replaced_by_another_fork(notes: Path) -> None:
    with Play(order("forking.Inherited", notes=str(notes)), num_envs=2) as play:
        (warm,) = parents(play)
        victim = play.rollout.pids()[0]
        os.kill(victim, signal.SIGKILL)
        play.until(lambda: play.lost)
        assert play.lost[0]["message"] == "environment process was killed by SIGKILL"
        assert parents(play) == {warm} and victim not in play.rollout.pids()
        assert len(builders(notes)) == 2
        assert len(play.batch()) == 2


def test_without_its_warm_process_a_rollout_goes_on(notes: Path) -> None:
    """What was forked ends with it; the successors are spawned."""
    with Play(order("forking.Inherited", notes=str(notes)), num_envs=2) as play:
        (warm,) = parents(play)
        os.kill(warm, signal.SIGKILL)
        play.until(lambda: len(play.lost) == 2)
        assert {lost["message"] for lost in play.lost} == {
            "the warm process that it was forked from was killed by SIGKILL"
        }
        assert parents(play) == {os.getpid()}
        assert len(play.batch()) == 2


def test_a_warm_process_that_hangs_is_given_up(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_process, "_FORK_S", 1.0)
    with Play(order("forking.Inherited", notes=str(notes)), num_envs=3) as play:
        (warm,) = parents(play)
        os.kill(warm, signal.SIGSTOP)
        os.kill(play.rollout.pids()[0], signal.SIGKILL)
        play.until(lambda: len(play.lost) == 3)
        assert [lost["message"] for lost in play.lost] == [
            "environment process was killed by SIGKILL",
            *["the warm process that it was forked from did not fork within 1 s and was ended"] * 2,
        ]
        assert parents(play) == {os.getpid()}
        assert len(play.batch()) == 3


def test_a_rollout_whose_warm_process_hangs_can_be_closed(notes: Path) -> None:
    with Play(order("forking.Inherited", notes=str(notes)), num_envs=3) as play:
        (warm,) = parents(play)
        os.kill(warm, signal.SIGSTOP)
        pids = play.rollout.pids()
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 8.0
    _, left = psutil.wait_procs([process for pid in [warm, *pids] if (process := _process(pid))], timeout=0.5)
    assert not any(process.status() != psutil.STATUS_ZOMBIE for process in left)  # whom nobody cleared away


def test_a_successor_may_get_the_pid_of_its_predecessor(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    if not os.access(last_pid, os.W_OK):
        pytest.skip("only root chooses pids")
    with Play(order("forking.Inherited", notes=str(notes)), num_envs=2) as play:
        parents(play)
        victim = play.rollout.pids()[0]
        fork = warm_process.WarmProcess.fork

        def with_the_same_pid(*arguments: Any) -> Any:
            last_pid.write_text(str(victim - 1))
            return fork(*arguments)

        monkeypatch.setattr(warm_process.WarmProcess, "fork", with_the_same_pid)
        os.kill(victim, signal.SIGKILL)
        play.until(lambda: play.lost)
        if play.rollout.pids()[0] != victim:
            pytest.skip("somebody else got the pid")
        assert len(play.batch()) == 2
        play.rollout._pool.check(time.monotonic())
        assert len(play.lost) == 1 and play.rollout.pids()[0] == victim


def test_a_simulator_that_forks_while_it_is_warmed_up_is_not_warmed_up_twice() -> None:
    with Play(order("offspring.ReturningAtImport"), num_envs=3) as play:
        (warm,) = parents(play)
        children = psutil.Process(warm).children()
        alive = [child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE]
        assert sorted(alive) == sorted(play.rollout.pids())
        assert len(play.batch()) == 3 and not play.lost


def test_a_simulator_that_hangs_while_it_is_built_for_all_shows_its_stack() -> None:
    deadlines = Deadlines(start_s=3.0, reset_s=30.0, step_s=30.0)
    lingering = Play(order("forking.Lingering"), num_envs=2, settings={"deadlines": deadlines})
    with lingering as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message == "bad:Lingering: no answer to start within 3 s"
    assert "in __init__" in caught.value.detail


def test_the_warm_process_ends_with_the_thread_that_started_it(notes: Path) -> None:
    found: list[int] = []

    def start() -> None:
        play = Play(order("forking.Inherited", notes=str(notes)), num_envs=2).__enter__()
        found.extend([*parents(play), *play.rollout.pids()])

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    gc.collect()  # the guardian of the family waits for this process to end, or to let go of it
    assert len(found) == 3
    processes = [process for pid in found if (process := _process(pid)) is not None]
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None
