"""The family of a simulator: its processes with all that they start, none of which may outlive the work.

Each carries a mark in its environment variables, which what it starts inherits, in whatever session. Run as a file this
is the guardian: ``python family.py MARK`` waits for the end of its input, which also comes when the process that
started it is killed, and then ends all that carries the mark.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable

import psutil

MARK = "EBRL_FAMILY"
"""Environment variable."""

_MOMENT_S = 1.0  # for resource trackers, and for the kernel
_ROUNDS = 10
_PATIENCE_S = _ROUNDS * 2 * _MOMENT_S + 5.0  # with a guardian at work


class Family:
    """Processes started with `MARK` set to `mark` end, with all that they started, when this is closed, or its process
    dies. What drops its environment variables is not known any more. A context manager."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self._guardian = subprocess.Popen(
            [sys.executable, "-P", __file__, self.mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """End all that is left. Safe to call twice."""
        assert self._guardian.stdin is not None
        self._guardian.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._guardian.wait(_PATIENCE_S) == 0:
                return
        self._guardian.kill()  # whatever happened to it, its work is done here
        self._guardian.wait()
        _end_marked(self.mark)

    def __enter__(self) -> Family:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def leader(pid: int) -> psutil.Process | None:
    """The process that has just been started with this pid; None where it has ended already."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def of(leaders: Iterable[psutil.Process | None]) -> list[psutil.Process]:
    """These processes, their descendants, and the members of the sessions that they lead or led."""
    everybody = {}
    for pid in psutil.pids():  # not `process_iter`, which remembers processes whose pid has another by now
        with contextlib.suppress(psutil.Error):
            everybody[pid] = psutil.Process(pid)
    # Once a session is empty, the system may give the pid of its leader to a stranger.
    own = {one.pid for one in leaders if one is not None and everybody.get(one.pid, one) == one}
    parents: dict[int, int] = {}
    found: set[int] = set()
    for pid, process in everybody.items():
        with contextlib.suppress(psutil.Error, OSError):
            parents[pid] = process.ppid()
            if pid in own or os.getsid(pid) in own:
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [everybody[pid] for pid in found]


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill them. Resource trackers of multiprocessing end by themselves once their users are gone, and remove what
    these left in shared memory: they get a moment."""
    trackers, killed = [], []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if "multiprocessing.resource_tracker" in " ".join(process.cmdline()):
                trackers.append(process)
            else:
                process.kill()
                killed.append(process)
    for process in _left(trackers):
        with contextlib.suppress(psutil.Error):
            process.kill()
    _left(killed)


def _left(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run after a moment. Nobody is cleared away here: that is for who started them."""
    end_s = time.monotonic() + _MOMENT_S
    while (processes := [process for process in processes if runs(process)]) and time.monotonic() < end_s:
        time.sleep(0.002)
    return processes


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended; one that nobody has cleared away yet has."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and runs(process):
                found.append(process)
    return found


def _end_marked(mark: str) -> None:
    for _ in range(_ROUNDS):  # what is ended may be started again meanwhile
        if not (found := _marked(mark)):
            break
        end(found)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _end_marked(sys.argv[1])
