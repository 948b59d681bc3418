"""What simulators start ends with them, and at the latest with their rollout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ebrl.runtime import family
from ebrl.runtime.family import Family

from .playing import TESTS, Play, order

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts sessions by setsid, and looks into /proc")

NUM_ENVS = [1, 2]  # spawned, forked


def lines(notes: Path) -> list[str]:
    return notes.read_text().split()


def alive(pids: list[str]) -> list[int]:
    return [
        int(pid)
        for pid in pids
        if psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize("num_envs", NUM_ENVS)
def test_programs_with_sessions_of_their_own_end_with_the_rollout(tmp_path: Path, num_envs: int) -> None:
    notes = tmp_path / "pids"
    with Play(order("offspring.Daemons", notes=str(notes)), num_envs=num_envs) as play:
        play.at_rest()
        assert len(alive(lines(notes))) == 2 * num_envs
    assert alive(lines(notes)) == []


def test_children_of_a_lost_environment_end_with_it(tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    with Play(order("offspring.Daemons", notes=str(notes))) as play:
        play.at_rest()
        os.kill(play.rollout.pids()[0], signal.SIGSTOP)  # killed by the engine, so its children are known to it
        play.rollout._pool.recycle(0)
        child, _orphan = lines(notes)[:2]
        assert alive([child]) == []


_PARENT = """
from playing import Play, order
with Play(order("offspring.Daemons", notes={notes!r}), num_envs=2) as play:
    play.at_rest()
    print("ready", flush=True)
    play.until(lambda: False, timeout_s=100.0)
"""


def test_programs_end_when_who_started_them_is_killed(tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT.format(notes=str(notes))],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS / "runtime"), os.environ.get("PYTHONPATH", "")])},
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    parent.communicate()
    deadline_s = time.monotonic() + 10.0
    while alive(lines(notes)):
        assert time.monotonic() < deadline_s, alive(lines(notes))
        time.sleep(0.05)


@pytest.mark.parametrize("num_envs", NUM_ENVS)
@pytest.mark.parametrize("how", ["orderly", "killed"])
def test_shared_memory_is_given_back(tmp_path: Path, num_envs: int, how: str) -> None:
    notes = tmp_path / "names"
    with Play(order("offspring.Sharing", notes=str(notes)), num_envs=num_envs) as play:
        play.at_rest()
        assert all((Path("/dev/shm") / name).exists() for name in lines(notes))
        if how == "killed":
            os.kill(play.rollout.pids()[0], signal.SIGKILL)
            play.until(lambda: play.lost)
            play.at_rest()
    assert len(lines(notes)) == 2 * (num_envs + (how == "killed"))
    assert [name for name in lines(notes) if (Path("/dev/shm") / name).exists()] == []


@pytest.mark.parametrize("num_envs", NUM_ENVS)
def test_a_simulator_may_spawn_processes_by_multiprocessing(num_envs: int) -> None:
    with Play(order("offspring.Spawned"), num_envs=num_envs) as play:
        assert len(play.batch()) == num_envs and not play.lost


def test_where_memory_ends_simulators_end_first() -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    with Play(order("counting.Counting"), num_envs=2) as play:
        play.at_rest()
        worse = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in play.rollout.pids()]
    assert worse == [min(1000, own + 500)] * 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_end_of_the_guardian_saves_nobody(how: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "_PATIENCE_S", 1.0)
    whole = Family()
    orphan = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={**os.environ, family.MARK: whole.mark})
    os.kill(whole._guardian.pid, how)
    whole.close()
    assert orphan.wait(5.0) == -signal.SIGKILL
