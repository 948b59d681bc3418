"""Bind processes to cores."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable

_warned = False


def supported() -> bool:
    """Whether this process may set its own affinity."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return False
    return True


def allowed() -> frozenset[int]:
    """The core ids that this process may run on; all of the machine where there are no affinity masks."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def bind(pid: int, cores: Iterable[int]) -> bool:
    """Bind every thread of process `pid` to `cores`; False, with one warning per process, where that is refused.

    Affinity belongs to threads: setting it for the process id moves its main thread alone. A process that
    has ended is no error.
    """
    wanted = frozenset(cores)
    bound: set[int] = set()
    try:
        # A thread started meanwhile may have inherited the old mask, so look again until all are seen.
        while new := _threads(pid) - bound:
            for thread in new:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, wanted)
            bound |= new
    except (AttributeError, OSError) as error:
        _warn(f"cannot bind processes to cores, they run unpinned: {error}")
        return False
    return True


def _threads(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except (FileNotFoundError, ProcessLookupError):
        if not os.path.isdir("/proc/self/task"):
            raise
        return set()


def _warn(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(message, RuntimeWarning, stacklevel=3)
