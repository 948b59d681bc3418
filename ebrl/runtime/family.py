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
import uuid
from collections.abc import Iterable

import psutil

MARK = "EBRL_FAMILY"
"""Environment variable."""

_MOMENT_S = 1.0  # for resource trackers


class Family:
    """Processes started with `MARK` set to `mark` end, with all that they started, when this is closed, or its process
    dies. A context manager."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", __file__, self.mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """End all that is left. Safe to call twice."""
        assert self._guardian.stdin is not None
        self._guardian.stdin.close()
        self._guardian.wait()

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
    everybody = {process.pid: process for process in psutil.process_iter()}
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
    trackers = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if "multiprocessing.resource_tracker" in " ".join(process.cmdline()):
                trackers.append(process)
            else:
                process.kill()
    for process in psutil.wait_procs(trackers, timeout=_MOMENT_S)[1]:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _marked(mark: str) -> Iterable[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                yield process


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end(_marked(sys.argv[1]))
