"""Step dispatcher: which ready environment gets the core that just came free (greedy core rebinding)."""

from __future__ import annotations

import heapq
import math
from collections import deque

import attrs

Urgency = tuple[float, float]
"""Which batch the work is for, and minus the steps that the environment still owes it."""

_MOST_STALE = 1024  # entries without an environment that are tolerated


@attrs.define(kw_only=True)
class StepDispatcher:
    """One running environment per core. Of the ready environments the most urgent goes first, and of equally
    urgent ones that with the largest expected latency.

    Starting the longest work first keeps stragglers from ending last (EBRL, greedy core rebinding).
    Urgency keeps data fresh: work on the batch that trains next goes before work on later ones, so that
    those wait for the newest weights while no core is idle. An environment that was passed over
    `patience` times goes next whatever its urgency and latency, so nobody starves. Latencies are moving
    averages, kept per kind of work since a reset may cost fifty steps.
    """

    cores: tuple[int, ...]
    smoothing: float = 0.2
    """Weight of the newest latency in the moving average."""
    patience: int = 4096
    latency_s: dict[tuple[int, str], float] = attrs.field(factory=dict, init=False)
    """H[e]: expected seconds per environment and kind of work."""
    _free: list[int] = attrs.field(init=False)
    _running: dict[int, tuple[int, str]] = attrs.field(factory=dict, init=False)
    _ready: dict[int, tuple[int, str]] = attrs.field(factory=dict, init=False)  # environment -> (ticket, work)
    _by_urgency: list[tuple[Urgency, float, int, int]] = attrs.field(
        factory=list, init=False
    )  # heap, stale entries allowed
    _by_arrival: deque[tuple[int, int, int]] = attrs.field(factory=deque, init=False)
    _tickets: int = attrs.field(default=0, init=False)
    _dispatched: int = attrs.field(default=0, init=False)

    @_free.default
    def _all_cores(self) -> list[int]:
        if not self.cores:
            raise ValueError("a dispatcher needs at least one core")
        return sorted(self.cores, reverse=True)

    def ready(self, environment: int, work: str = "step", urgency: Urgency = (0.0, 0.0)) -> None:
        """`environment` could use a core now, for one ``step`` or one ``reset``; the smallest `urgency` goes first."""
        if environment in self._ready or environment in self._running:
            raise ValueError(f"environment {environment} already has work in flight")
        self._tickets += 1
        self._ready[environment] = (self._tickets, work)
        expected_s = self.latency_s.get((environment, work), math.inf)
        heapq.heappush(self._by_urgency, (urgency, -expected_s, self._tickets, environment))
        self._by_arrival.append((self._dispatched, self._tickets, environment))
        if len(self._by_urgency) > 2 * len(self._ready) + _MOST_STALE:
            self._forget_stale()

    def finished(self, environment: int, elapsed_s: float) -> None:
        """The work that `dispatch` granted is done; its core is free."""
        core, work = self._running.pop(environment)
        self._free.append(core)
        before = self.latency_s.get((environment, work), elapsed_s)
        self.latency_s[environment, work] = before + self.smoothing * (elapsed_s - before)

    def remove(self, environment: int) -> None:
        """`environment` is gone, whatever it was doing."""
        self._ready.pop(environment, None)
        if (running := self._running.pop(environment, None)) is not None:
            self._free.append(running[0])

    def dispatch(self) -> list[tuple[int, int]]:
        """(environment, core) pairs to start now."""
        grants = []
        while self._free and self._ready:
            environment = self._next()
            core = self._free.pop()
            _, work = self._ready.pop(environment)
            self._running[environment] = (core, work)
            self._dispatched += 1
            grants.append((environment, core))
        return grants

    @property
    def waiting(self) -> int:
        """Environments that are ready and have no core."""
        return len(self._ready)

    @property
    def running(self) -> int:
        return len(self._running)

    def _next(self) -> int:
        while not self._current(*self._by_arrival[0][1:]):
            self._by_arrival.popleft()
        since, _, oldest = self._by_arrival[0]
        if self._dispatched - since >= self.patience:
            return oldest
        while True:
            *_, ticket, environment = heapq.heappop(self._by_urgency)
            if self._current(ticket, environment):
                return environment

    def _forget_stale(self) -> None:
        """Who went by arrival or was removed left an entry deep in the heap, where it would stay for ever."""
        self._by_urgency = [entry for entry in self._by_urgency if self._current(*entry[2:])]
        heapq.heapify(self._by_urgency)
        self._by_arrival = deque(entry for entry in self._by_arrival if self._current(*entry[1:]))

    def _current(self, ticket: int, environment: int) -> bool:
        return environment in self._ready and self._ready[environment][0] == ticket
