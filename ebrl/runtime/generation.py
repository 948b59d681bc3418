"""The resident generation engine: serves observation channels with the newest weights."""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import attrs
import numpy as np

from ebrl.graph.items import Batch, Observation, Weights
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.channel import Connection, address, connect
from ebrl.runtime.hosting import Calls, Host
from ebrl.runtime.loop import Loop
from ebrl.runtime.slots import Slots
from ebrl.schedule.batcher import Batcher

_RECONNECT_S = 0.05


@attrs.define
class _Counts:
    """Of the time since `since_s`."""

    since_s: float = attrs.field(factory=time.monotonic)
    cpu_s: float = attrs.field(factory=time.process_time)
    """CPU time of the process at that moment."""
    compute_s: float = 0.0
    waited_s: float = 0.0
    """All requests together, from their arrival to the beginning of their batch."""
    batches: int = 0
    requests: int = 0


class GenerationEngine:
    """Serves until closed. Weights are exchanged between two batches, never within one."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._host = Host(assignment, on_lost=lambda lost: None)
        self._loop = Loop()
        self._batcher: Batcher[tuple[int, int]] = Batcher(batch_size=assignment.stage.batch_size)
        self._sources: dict[int, tuple[Connection, Slots]] = {}
        self._arrived_s: dict[tuple[int, int], float] = {}
        self._version = -1
        self._closing = False
        self._failure: BaseException | None = None
        self._superseded = threading.Event()
        self._guard = threading.Lock()
        self._newest = -1
        self._loaded_s = 0.0
        self._counts = _Counts()
        self._thread = threading.Thread(target=self._run, name=assignment.worker, daemon=True)
        self._thread.start()

    def serve(self, weights: Weights) -> dict[str, Any] | None:
        """Load `weights` and serve with them until newer ones arrive; telemetry of that time. None, at once,
        where newer ones are served already: tasks may arrive out of order."""
        weights.verify()
        self._host.prepare(weights)  # in this thread: others are served meanwhile
        loaded, superseded = threading.Event(), threading.Event()
        with self._guard:
            if weights.version <= self._newest:
                return None
            self._newest = weights.version
            self._superseded.set()
            self._superseded = superseded
        self._loop.call(lambda: self._load(weights, loaded))
        self._await(loaded)
        loaded_s = self._loaded_s
        self._await(superseded)
        return self._telemetry() | {"version": weights.version, "loaded_s": loaded_s}

    def _await(self, event: threading.Event) -> None:
        while not event.wait(0.2):
            if self._failure is not None:
                raise self._failure

    def retune(self, assignment: Assignment) -> None:
        """Follow the quota and the batches of a new plan."""

        def follow() -> None:
            self._assignment = assignment
            self._batcher.batch_size = assignment.stage.batch_size
            self._host.retune(assignment)

        self._loop.call(follow)

    def measure(self, batch: int, calls: int, threads: int) -> Calls:
        """Time `calls` calls with batches of `batch` of the observations that lie in the slots.

        Nothing else is served meanwhile. Waits for the first simulation to show itself, and for the first weights.
        """
        found: SimpleQueue[Calls] = SimpleQueue()

        def attempt() -> None:
            if not self._sources or self._version < 0:
                threading.Timer(_RECONNECT_S, self._loop.call, (attempt,)).start()
                return
            try:
                slots = next(iter(self._sources.values()))[1]
                rows = np.arange(batch) % slots.rows
                shown = Batch.stacked(Observation, seeds=slots["seed"][rows], **slots.columns(rows))
                found.put(self._host.timed(lambda: self._host.call(observations=shown), calls, threads))
            except BaseException as failure:
                self._failure = failure

        self._loop.call(attempt)
        while True:
            try:
                return found.get(timeout=0.2)
            except Empty:
                if self._failure is not None:
                    raise self._failure from None

    def _telemetry(self) -> dict[str, Any]:
        """What happened since the last call."""
        with self._guard:
            counts, self._counts = self._counts, _Counts()
        wall_s = max(self._counts.since_s - counts.since_s, 1e-9)
        return {
            "batch_size": counts.requests / max(counts.batches, 1),
            "wait_ms": 1e3 * counts.waited_s / max(counts.requests, 1),
            "compute_ms": 1e3 * counts.compute_s / max(counts.batches, 1),
            "requests": counts.requests,
            "idle": max(0.0, 1.0 - counts.compute_s / wall_s),
            "cpu_s": self._counts.cpu_s - counts.cpu_s,
        }

    def close(self) -> None:
        self._closing = True
        self._superseded.set()
        self._loop.call(lambda: None)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self) -> None:
        try:
            while not self._closing:
                missing = len(self._sources) < len(self._assignment.sources)
                self._loop.poll(_RECONNECT_S if missing else None)
                if missing:
                    self._connect()
                while batch := self._batcher.take() if self._version >= 0 else []:
                    self._generate(batch)
                    self._loop.poll(0.0)
        except BaseException as failure:
            self._failure = failure

    def _connect(self) -> None:
        for number, where in enumerate(channels(self._assignment)):
            if number in self._sources:
                continue
            with contextlib.suppress(OSError):
                connection, slots = connect(where)
                self._sources[number] = (connection, slots)
                self._loop.watch(connection, partial(self._requested, number))

    def _requested(self, number: int) -> None:
        connection, slots = self._sources[number]
        try:
            for message in connection.receive():
                rows = message.rows
                requests = [(number, row) for row in rows]
                self._arrived_s.update(dict.fromkeys(requests, time.perf_counter()))
                self._batcher.arrived(
                    requests,
                    min_versions=[int(slots["min_version"][row]) for row in rows],
                    version=self._version,
                    hungry=message.hungry,
                )
        except OSError:
            self._forget(number)

    def _forget(self, number: int) -> None:
        """A simulation worker is gone; its successor will listen under the same name."""
        connection, slots = self._sources.pop(number)
        self._batcher.forget((number, row) for row in range(slots.rows))
        self._loop.forget(connection)
        connection.close()

    def _load(self, weights: Weights, loaded: threading.Event) -> None:
        try:
            self._host.load(weights)
            self._version, self._loaded_s = weights.version, time.monotonic()
            self._batcher.published(weights.version)
            loaded.set()
        except BaseException as failure:
            self._failure = failure

    def _generate(self, batch: list[tuple[int, int]]) -> None:
        began_s = time.perf_counter()
        for number in {number for number, _ in batch}:
            connection, slots = self._sources[number]
            rows = np.array([row for source, row in batch if source == number], np.intp)
            self._act(slots, rows)
            try:
                connection.send(rows.tolist())
            except OSError:
                self._forget(number)
        with self._guard:
            self._counts.compute_s += time.perf_counter() - began_s
            self._counts.waited_s += sum(began_s - self._arrived_s[request] for request in batch)
            self._counts.batches += 1
            self._counts.requests += len(batch)

    def _act(self, slots: Slots, rows: Any) -> None:
        # Matrix products round differently for different batch shapes. Where results must not depend on
        # timing, every environment keeps its own row of one full batch.
        invariant = getattr(self._host.policy, "batch_invariant", False)
        everyone = self._assignment.in_order and not invariant
        shown: Any = slice(None) if everyone else rows
        chosen: Any = rows if everyone else slice(None)
        observations = Batch.stacked(Observation, seeds=slots["seed"][shown], **slots.columns(shown))
        chunks = self._host.call(observations=observations)
        slots["actions"][rows] = chunks.column("actions")[chosen]
        slots["log_probs"][rows] = chunks.column("log_probs")[chosen]
        slots["version"][rows] = self._version


def channels(assignment: Assignment) -> list[str]:
    """Where on this node the observations of each source are found."""
    return [
        address(assignment.run, f"{source}@{assignment.worker}" if elsewhere else source)
        for source, elsewhere in assignment.sources.items()
    ]
