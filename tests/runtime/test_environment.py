"""One environment process at a time, without a rollout."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebrl.runtime import wire
from ebrl.runtime.environment import EnvironmentGone, EnvironmentProcess, Reply
from ebrl.runtime.slots import Slots, anonymous_memory, layout

from .playing import order


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = anonymous_memory()
    yield descriptor
    os.close(descriptor)


def _hear(process: EnvironmentProcess) -> Reply:
    deadline_s = time.monotonic() + 20.0
    while (reply := process.receive()) is None:
        assert time.monotonic() < deadline_s
        select.select([process.descriptor], [], [], 1.0)
    return reply


def _slots(process: EnvironmentProcess, memory: int, chunk: int) -> Slots:
    """Wait for the process and give it its slots."""
    assert _hear(process).kind == wire.READY
    assert process.spec is not None
    slots = Slots.create(memory, layout(process.spec, rows=1, chunk=chunk))
    process.attach(slots.layout)
    process.reset(3)
    assert _hear(process).kind == wire.DONE
    return slots


def test_several_actions_with_one_command(memory: int) -> None:
    """A success between two boundaries is not forgotten."""
    process = EnvironmentProcess(0, order("succeeding.Succeeding", at=2, ends=False), memory)
    slots = _slots(process, memory, chunk=4)
    process.step(3, first=True)
    reply = _hear(process)
    assert (reply.steps, reply.success, reply.terminated, reply.truncated) == (3, True, False, False)
    process.step(3, first=False)
    reply = _hear(process)
    assert (reply.steps, reply.success) == (1, False)
    assert slots["rewards"][0].tolist() == [1, 2, 3, 4]
    process.kill()
    process.kill()


def test_a_large_order_does_not_wait_for_the_process(memory: int) -> None:
    began_s = time.monotonic()
    simulator = order("hanging.HangingStart", ballast="x" * 5_000_000)
    process = EnvironmentProcess(0, simulator, memory)
    process.kill()
    assert time.monotonic() - began_s < 5.0


def test_files_in_the_working_folder_do_not_shadow_the_library(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise RuntimeError('not the real one')")
    monkeypatch.chdir(tmp_path)
    process = EnvironmentProcess(0, order("counting.Counting"), memory)
    assert _hear(process).kind == wire.READY
    process.kill()


def _open_files(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.add(os.readlink(entry))
    return found


def test_what_a_simulator_starts_inherits_nothing_and_ends_with_it(memory: int, tmp_path: Path) -> None:
    notes = tmp_path / "pid"
    process = EnvironmentProcess(0, order("disturbing.Spawning", notes=str(notes)), memory)
    try:
        _hear(process)
        assert not any(name.startswith("/memfd:ebrl") for name in _open_files(int(notes.read_text())))
    finally:
        process.kill()
    state = subprocess.run(["ps", "-o", "stat=", "-p", notes.read_text()], capture_output=True, text=True).stdout
    assert state.strip()[:1] in ("", "Z")


def test_the_process_leaves_when_nobody_commands_it(memory: int) -> None:
    process = EnvironmentProcess(0, order("counting.Counting"), memory)
    _slots(process, memory, chunk=1)
    os.close(process._commands)
    process._commands = os.dup(process.descriptor)  # something to close at the end
    with pytest.raises(EnvironmentGone, match="environment process exited with code 0"):
        _hear(process)
    process.kill()


def test_commands_to_a_dead_process_are_no_error(memory: int) -> None:
    process = EnvironmentProcess(0, order("counting.Counting"), memory)
    os.kill(process.pid, signal.SIGKILL)
    while not process.ended:
        time.sleep(0.001)
    process.reset(1)
    process.close()
    with pytest.raises(EnvironmentGone, match="killed by SIGKILL"):
        _hear(process)
    process.kill()
