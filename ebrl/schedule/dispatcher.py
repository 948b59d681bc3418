"""Step dispatcher: which ready environment gets the core that just came free (greedy core rebinding)."""

from __future__ import annotations

import heapq
import math
from collections import deque

import attrs

Urgency = tuple[float, float]
"""Which batch the work is for, and minus the chunks that the environment still owes it."""

_Heap = list[tuple[Urgency, float, int, int]]  # urgency, minus grade of latency, ticket, environment

_LEAST_S = 1e-9
_WELL_OUTSIDE = 0.7
"""Grades; half a one is where the next begins."""
_TYPICAL = 0.05
"""Weight of an environment's expected latency in what is typical, each time that it finishes: a mean of logarithms."""
_MOST_STALE = 1024  # entries without an environment that are tolerated


@attrs.define(kw_only=True)
class StepDispatcher:
    """One running environment per core. Of the ready environments the most urgent goes first, of equally urgent ones
    that with the largest expected latency, and of those that take about as long whoever has waited longest.

    Starting the longest work first keeps stragglers from ending last (EBRL, greedy core rebinding). Latencies are
    compared by grades, each twice the one before and counted from what is typical, and an environment leaves its grade
    only when it is well outside: if chance decided among equals, some of their chunks would take twice as long.
    Urgency keeps data fresh: work on the batch that trains next goes before work on later ones, so that
    those wait for the newest weights while no core is idle. An environment that was passed over
    `patience` times goes next whatever its urgency and latency, so nobody starves. Latencies are moving
    averages, kept per kind of work since a reset may cost fifty steps.

    An environment keeps its core, whose caches know it, while that costs no balance: a free core takes the
    most urgent environment of another one only when its own all owe less than that by more than `tolerance`
    chunks, or work for a later batch. It never stays free while any environment is ready.
    """

    cores: tuple[int, ...]
    smoothing: float = 0.2
    """Weight of the newest latency in the moving average."""
    patience: int = 4096
    tolerance: float = 1.0
    """Chunks that an environment on its own core may owe less than the most urgent one and still go first."""
    latency_s: dict[tuple[int, str], float] = attrs.field(factory=dict, init=False)
    """H[e]: expected seconds per environment and kind of work."""
    _grade: dict[tuple[int, str], int] = attrs.field(factory=dict, init=False)
    _typical: dict[str, float] = attrs.field(factory=dict, init=False)  # logarithm to base 2
    _free: dict[int, None] = attrs.field(init=False)  # in the order in which they came free
    _home: dict[int, int] = attrs.field(factory=dict, init=False)  # environment -> the core it ran on last
    _running: dict[int, tuple[int, str]] = attrs.field(factory=dict, init=False)
    _ready: dict[int, tuple[int, str]] = attrs.field(factory=dict, init=False)  # environment -> (ticket, work)
    _by_urgency: _Heap = attrs.field(factory=list, init=False)  # stale entries allowed, as in the next two
    _at_home: dict[int, _Heap] = attrs.field(init=False)  # the same per core, of those that ran there last
    _by_arrival: deque[tuple[int, int, int]] = attrs.field(factory=deque, init=False)
    _tickets: int = attrs.field(default=0, init=False)
    _dispatched: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        if not self.cores or len(set(self.cores)) < len(self.cores):
            raise ValueError("a dispatcher needs at least one core, and each once")
        self._free = dict.fromkeys(self.cores)
        self._at_home = {core: [] for core in self.cores}

    def ready(self, environment: int, work: str = "step", urgency: Urgency = (0.0, 0.0)) -> None:
        """`environment` could use a core now, for a ``step`` or more or one ``reset``; the smallest `urgency` first."""
        if environment in self._ready or environment in self._running:
            raise ValueError(f"environment {environment} already has work in flight")
        self._tickets += 1
        self._ready[environment] = (self._tickets, work)
        grade = self._grade.get((environment, work), math.inf)
        entry = (urgency, -grade, self._tickets, environment)
        heapq.heappush(self._by_urgency, entry)
        if (home := self._home.get(environment)) in self._at_home:
            heapq.heappush(self._at_home[home], entry)
        self._by_arrival.append((self._dispatched, self._tickets, environment))
        if len(self._by_urgency) > 2 * len(self._ready) + _MOST_STALE:
            self._forget_stale()

    def finished(self, environment: int, elapsed_s: float, steps: int = 1) -> None:
        """The work that `dispatch` granted is done, of `steps` steps or one reset; its core is free."""
        core, work = self._running.pop(environment)
        self._release(core)
        latency_s = elapsed_s / max(steps, 1)
        key = environment, work
        before = self.latency_s.get(key, latency_s)
        self.latency_s[key] = expected_s = before + self.smoothing * (latency_s - before)
        self._judge(key, math.log2(max(expected_s, _LEAST_S)))

    def remove(self, environment: int) -> None:
        """`environment` is gone, whatever it was doing; a successor of its number is new to all cores."""
        self._ready.pop(environment, None)
        self._home.pop(environment, None)
        if (running := self._running.pop(environment, None)) is not None:
            self._release(running[0])

    def move(self, cores: tuple[int, ...]) -> None:
        """From now on grant these cores only; what runs on others ends there."""
        if not cores or len(set(cores)) < len(cores):
            raise ValueError("a dispatcher needs at least one core, and each once")
        busy = {core for core, _ in self._running.values()}
        self._free = {core: None for core in (*self._free, *cores) if core in cores and core not in busy}
        self._home = {environment: core for environment, core in self._home.items() if core in cores}
        self._at_home = {core: self._at_home.get(core, []) for core in cores}
        self.cores = cores

    def dispatch(self) -> list[tuple[int, int]]:
        """(environment, core) pairs to start now."""
        grants = []
        while self._free and self._ready:
            environment, core = self._next()
            del self._free[core]
            self._home[environment] = core
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

    @property
    def hungry(self) -> bool:
        """Whether a core has, or will have, nothing to do before more environments are ready."""
        return not self._ready

    def _release(self, core: int) -> None:
        if core in self._at_home:  # else it was taken away meanwhile
            self._free[core] = None

    def _judge(self, key: tuple[int, str], octave: float) -> None:
        typical = self._typical.get(key[1], octave)
        self._typical[key[1]] = typical + _TYPICAL * (octave - typical)
        if abs(octave - typical - self._grade.setdefault(key, 0)) > _WELL_OUTSIDE:
            self._grade[key] = round(octave - typical)

    def _next(self) -> tuple[int, int]:
        while not self._current(*self._by_arrival[0][1:]):
            self._by_arrival.popleft()
        since, _, oldest = self._by_arrival[0]
        core = next(iter(self._free))
        if self._dispatched - since >= self.patience:
            return oldest, self._home_if_free(oldest, core)
        first = self._top(self._by_urgency)
        assert first is not None
        if first[-1] not in self._home:
            return first[-1], core
        if (home := self._home_if_free(first[-1], core)) != core:
            return first[-1], home
        own = self._top(self._at_home[core])
        return (own if own is not None and self._near(own[0], first[0]) else first)[-1], core

    def _home_if_free(self, environment: int, otherwise: int) -> int:
        home = self._home.get(environment, otherwise)
        return home if home in self._free else otherwise

    def _near(self, urgency: Urgency, first: Urgency) -> bool:
        return urgency[0] == first[0] and urgency[1] - first[1] <= self.tolerance

    def _top(self, heap: _Heap) -> tuple[Urgency, float, int, int] | None:
        while heap and not self._current(*heap[0][2:]):
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _forget_stale(self) -> None:
        """Who went by arrival or was removed left an entry deep in the heap, where it would stay for ever."""
        for heap in (self._by_urgency, *self._at_home.values()):
            heap[:] = [entry for entry in heap if self._current(*entry[2:])]
            heapq.heapify(heap)
        self._by_arrival = deque(entry for entry in self._by_arrival if self._current(*entry[1:]))

    def _current(self, ticket: int, environment: int) -> bool:
        return environment in self._ready and self._ready[environment][0] == ticket
