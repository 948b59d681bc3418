"""Death: how the worker process of a stage ended by itself, as plain data that its driver can be told."""

from __future__ import annotations

import signal
from collections.abc import Iterable

import attrs

from ebrl.errors import StageError
from ebrl.graph.source import OWN
from ebrl.runtime.failure import KILLED, ending

DEATHS = "ebrl-deaths"
"""The Dask topic that hears of each."""

_DEEPEST = 20  # frames of a crash that are shown


class WorkerLost(StageError):
    """A stage cannot go on because what its worker held is gone."""


@attrs.define(frozen=True, kw_only=True)
class Death:
    """One end of one worker process that nobody of the engine asked for."""

    worker: str
    pid: int
    exit_code: int
    """As of `subprocess`: a signal's number is negative."""
    resident_mib: int
    """Resident size when it was last seen, half a second before the end at most."""
    limit_mib: int
    """The stage's quota; without one what its machine or control group has."""
    quota: bool
    """Whether the limit is the stage's own."""
    cause: str = ""
    """``quota``: ended for exceeding the limit; ``kernel``: the kernel has just killed for want of memory;
    ``stopped``: ended because a signal had stopped it and nobody let it go on."""
    crash: str = ""
    """Where user code was when a signal ended it, innermost line last."""

    @property
    def message(self) -> str:
        held = f"its worker held {self.resident_mib:,} MiB"
        if self.cause == "quota":
            return f"out of memory: {held}, more than the {self.limit_mib:,} MiB of memory_mib"
        if self.cause == "kernel":
            return f"out of memory: {held} of the {self.limit_mib:,} MiB {self._owner}, and the kernel killed it"
        if self.cause == "stopped":
            return "its worker was stopped by a signal, did not go on, and was ended"
        how = f"its worker {ending(self.exit_code)}"
        if self.exit_code == -signal.SIGKILL:
            return f"{how} while it held {self.resident_mib:,} of {self.limit_mib:,} MiB"
        return how

    @property
    def hint(self) -> str:
        if self.cause == "quota":
            return "raise memory_mib of the stage, or let it keep less"
        if self.cause == "kernel":
            return "let the stages keep less; memory_mib of a stage ends it before others suffer"
        if self.cause == "stopped":
            return "whoever stops a worker (SIGSTOP) must let it go on within seconds"
        if self.exit_code == -signal.SIGKILL:
            return KILLED
        if self.exit_code >= 0:
            return "a stage ends with return or an exception, never with os._exit"
        return ""

    @property
    def _owner(self) -> str:
        return "of memory_mib" if self.quota else "of its machine or control group"


def crash_frames(report: str) -> str:
    """User code's part of what `faulthandler` wrote, in the order of a traceback."""
    return "\n".join(reversed(list(_user_lines(report.splitlines()))))


def _user_lines(lines: Iterable[str]) -> Iterable[str]:
    """The frames inside the stage's function: all up to the first of the engine."""
    frames = [line for line in lines if line.startswith('  File "')]
    for line in frames[:_DEEPEST]:
        if line.startswith(f'  File "{OWN}'):
            return
        yield line
