"""Flight: the tasks of a run that are under way, and the one queue in which news of them and their stages arrives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from queue import Empty, SimpleQueue
from typing import Any

import attrs
from distributed import Client, Future

from ebrl.runtime.assignment import Assignment

_WAITING_S = 30.0  # a run that hears nothing for so long says what it waits for
_LOOK_UP_S = 0.5  # how often it looks whether it shall end


@attrs.define
class Task:
    """A task in flight."""

    key: str
    future: Future[Any]
    stage: str
    replica: str
    weights: Future[Any] | None = None
    """Of a judge's call: what it judges."""


class Flight:
    """All methods but `hear` are for the driver's thread."""

    def __init__(
        self,
        client: Client,
        *,
        on_event: Callable[[dict[str, Any]], None],
        on_waiting: Callable[[str], None],
        interrupted: threading.Event,
        patient: Collection[str],
    ) -> None:
        """on_event: what a stage said, see `hear`. on_waiting: for what, where nothing was heard for long. Both
        are called from `next_done`, which raises KeyboardInterrupt once `interrupted` is set.
        patient: stages whose tasks end only when others do."""
        self._client = client
        self._on_event, self._on_waiting, self._interrupted = on_event, on_waiting, interrupted
        self._patient = patient
        self._news: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._tasks: dict[str, Task] = {}
        self._deadline_s: float | None = None

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    def __iter__(self) -> Iterator[Task]:
        return iter(list(self._tasks.values()))

    def task(self, future: Future[Any]) -> Task:
        """The task in flight whose result is `future`."""
        return next(task for task in self._tasks.values() if task.future is future)

    def get(self, key: str) -> Task | None:
        return self._tasks.get(key)

    def busy(self, stages: Collection[str]) -> bool:
        """Whether one of `stages` has a task in flight."""
        return any(task.stage in stages for task in self._tasks.values())

    def submit(self, key: str, function: Callable[..., Any], assignment: Assignment, *args: Any) -> Future[Any]:
        """Submit a task to the worker of `assignment`. Its key groups it by stage on the dashboard."""
        future = self._client.submit(
            function,
            assignment,
            *args,
            key=f"{key}-{assignment.run}" if assignment.label else key,
            resources={assignment.tag: 1},
            pure=False,
        )
        self._tasks[key] = Task(key, future, assignment.stage.name, assignment.worker)
        future.add_done_callback(lambda _: self._news.put(("done", key)))
        return future

    def hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Takes events of a Dask topic, from any thread."""
        self._news.put(("told", event[1]))

    def next_done(self) -> Task:
        """Handle news until a task is over. It stays in flight until `landed`.

        TimeoutError past the deadline that `hurry` set.
        """
        heard_s = time.monotonic()
        while True:
            now = time.monotonic()
            if self._interrupted.is_set():
                raise KeyboardInterrupt
            if self._deadline_s is not None and now > self._deadline_s:
                raise TimeoutError(f"still waiting for {self._waiting_for()}")
            if now - heard_s > _WAITING_S:
                heard_s = now
                self._on_waiting(self._waiting_for())
            try:
                kind, value = self._news.get(timeout=_LOOK_UP_S)
            except Empty:
                continue
            if kind == "told":
                self._on_event(value)
            elif (task := self._tasks.get(value)) is not None:
                return task

    def landed(self, task: Task) -> None:
        """Nobody needs to know of `task` any more."""
        del self._tasks[task.key]

    def hurry(self, seconds: float) -> None:
        """From now on wait at most so long altogether."""
        self._deadline_s = time.monotonic() + seconds

    def cancel(self) -> None:
        """Drop what is still in flight."""
        if self._tasks:
            self._client.cancel([task.future for task in self._tasks.values()], force=True)
        self._tasks.clear()

    def _waiting_for(self) -> str:
        """What the run needs before it can go on."""
        waiting = sorted(key for key, task in self._tasks.items() if task.stage not in self._patient)
        return ", ".join(waiting) or "nothing in flight"
