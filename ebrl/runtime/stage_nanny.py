"""The Dask nanny of a stage replica: starts its worker, again where it ends, and tells how it ended."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections import deque
from pathlib import Path

import attrs
import psutil
from distributed import Nanny
from distributed.core import Status
from tornado.ioloop import PeriodicCallback

from ebrl.resources.cgroup import read_limits
from ebrl.runtime.death import DEATHS, Death, crash_frames
from ebrl.runtime.preload import CRASH
from ebrl.runtime.stage_worker import StageWorker

_LOOK_S = 0.5  # how often the process is looked at; once takes about 100 µs
_MOST_STOPPED = 10
"""Looks in a row, not seconds: whoever stops the whole run, as Ctrl-Z does, stops these too."""


@attrs.define(frozen=True)
class _Look:
    resident_mib: int
    kernel_kills: int


class StageNanny(Nanny):
    """Ends the worker where it exceeds `memory_mib`, or stays stopped: nobody else would notice that for minutes.

    Dask's own limit moves items to disk and stops giving tasks to a worker at 80 %: what fills a stage's
    memory is its own, so the run would stand still without a word.
    """

    def __init__(
        self,
        scheduler: str,
        *,
        name: str,
        threads: int,
        resources: dict[str, float],
        environment: dict[str, str],
        memory_mib: int | None,
        folder: str,
    ) -> None:
        self._crash = Path(folder) / f"crash-{name.replace(':', '-')}"
        super().__init__(
            scheduler,
            name=name,
            nthreads=threads,
            resources=resources,
            env=environment | {CRASH: str(self._crash)},
            memory_limit=0,
            local_directory=folder,
            silence_logs=logging.CRITICAL,
            dashboard=False,
            worker_class=StageWorker,
            preload=["ebrl.runtime.preload"],
            host="127.0.0.1" if scheduler.startswith("tcp://127.") else None,
        )
        self._quota_mib = memory_mib
        self._cause = ""
        self._stopped = 0
        self._worker: psutil.Process | None = None
        self._looks: deque[_Look] = deque(maxlen=2)  # the last one may have met a process that was being taken down
        self.periodic_callbacks["look"] = PeriodicCallback(self._look, _LOOK_S * 1000)

    def _look(self) -> None:
        """See how the worker is; end it where it is too large or does nothing any more."""
        pid = self.pid
        if pid is None:
            return
        try:
            if self._worker is None or self._worker.pid != pid:
                self._worker = psutil.Process(pid)
            look = _Look(self._worker.memory_info().rss >> 20, _kernel_kills())
            self._stopped = self._stopped + 1 if self._worker.status() == psutil.STATUS_STOPPED else 0
        except psutil.Error:  # it has just ended
            return
        self._looks.append(look)
        if self._quota_mib is not None and look.resident_mib > self._quota_mib:
            self._end(pid, "quota")
        elif self._stopped > _MOST_STOPPED:
            self._end(pid, "stopped")

    def _end(self, pid: int, cause: str) -> None:
        self._cause = cause
        os.kill(pid, signal.SIGKILL)

    async def _on_worker_exit(self, exitcode: int) -> None:
        if self.status == Status.running:
            with contextlib.suppress(OSError):  # the scheduler is gone
                await self._log_event(  # type: ignore[no-untyped-call]
                    DEATHS, {"kind": "death"} | attrs.asdict(self._death(exitcode))
                )
        self._cause, self._stopped = "", 0
        self._looks.clear()
        await super()._on_worker_exit(exitcode)

    def _death(self, exit_code: int) -> Death:
        cause = self._cause
        if not cause and exit_code == -signal.SIGKILL and self._looks:
            cause = "kernel" if _kernel_kills() > self._looks[0].kernel_kills else ""
        return Death(
            worker=self.name,
            pid=self._worker.pid if self._worker is not None else 0,
            exit_code=exit_code,
            resident_mib=max((look.resident_mib for look in self._looks), default=0),
            limit_mib=self._quota_mib or _machine_mib(),
            quota=self._quota_mib is not None,
            cause=cause,
            crash=self._last_words(),
        )

    def _last_words(self) -> str:
        try:
            report = self._crash.read_text(errors="replace")
        except OSError:
            return ""
        return crash_frames(report)


def _kernel_kills() -> int:
    """Processes of this machine that the kernel has killed for want of memory, in whatever control group."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _machine_mib() -> int:
    """The smaller of physical memory and the control group's limit."""
    limit = read_limits(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")).memory_mib
    total: int = psutil.virtual_memory().total >> 20
    return total if limit is None else min(total, limit)
