"""Replacements: stage workers that ended and were started again, and why a task could not be done."""

from __future__ import annotations

from typing import Any

from distributed.scheduler import KilledWorker, NoValidWorkerError

from ebrl.errors import EbrlError, StageError
from ebrl.runtime.death import Death, WorkerLost
from ebrl.runtime.flight import Task

_MOST_IN_A_ROW = 2  # deaths of a worker that finishes no task: the third would be like them


class Replacements:
    """Keeps, by replica, which process works for it and how those before it ended."""

    def __init__(self) -> None:
        self._residents: dict[str, int] = {}
        self._last: dict[str, Death] = {}
        self._in_a_row: dict[str, int] = {}

    def died(self, replica: str, death: Death) -> None:
        self._last[replica] = death
        self._in_a_row[replica] = self._in_a_row.get(replica, 0) + 1

    def finished(self, replica: str) -> None:
        """A task of `replica` is done."""
        self._in_a_row.pop(replica, None)

    def resident(self, replica: str, pid: int) -> str | None:
        """Process `pid` works for `replica` from now on; why, where it replaces another."""
        before, self._residents[replica] = self._residents.get(replica), pid
        if before is None:
            return None
        death = self._last.get(replica)
        return death.message if death is not None and death.pid == before else f"process {before} ended"

    def hopeless(self, task: Task) -> StageError | None:
        """The error for the user where the worker of `task` ends again and again."""
        if self._in_a_row.get(task.replica, 0) < _MOST_IN_A_ROW:
            return None
        death = self._last[task.replica]
        message = f"{death.message} (the second in a row to end, in {task.key})"
        return StageError(message, where=task.stage, detail=death.crash, hint=death.hint)

    def explain(self, task: Task) -> EbrlError:
        """Why `task` failed, as an error for the user."""
        future, death = task.future, self._last.get(task.replica)
        error: Any = future.exception() if future.status == "error" else None
        if isinstance(error, WorkerLost):
            return self._weights_lost(error)
        if isinstance(error, EbrlError):
            return error
        if isinstance(error, KilledWorker) and death is not None:
            return StageError(
                f"{death.message} while it ran {task.key}", where=task.stage, detail=death.crash, hint=death.hint
            )
        if isinstance(error, KilledWorker):
            return StageError(
                f"its worker was lost {error.allowed_failures + 1} times while it ran {task.key}",
                where=task.stage,
                hint="its machine or the network fails: see the log of its `ebrl worker`",
            )
        if isinstance(error, NoValidWorkerError) or future.status in ("cancelled", "lost"):
            return StageError(f"task {task.key} lost its worker and found no other", where=task.stage)
        return StageError(f"{type(error).__name__}: {error}", where=task.stage)

    def _weights_lost(self, error: WorkerLost) -> StageError:
        """The trainer's worker ended; whoever needs its weights has that error."""
        death = self._last.get(f"{error.where}-0")  # training has one replica
        if death is None:
            return error
        message = f"{death.message}, and with it the weights in training are lost"
        hint = "; ".join(filter(None, (death.hint, error.hint)))
        return StageError(message, where=error.where, detail=death.crash, hint=hint)
