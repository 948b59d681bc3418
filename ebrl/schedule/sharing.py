"""Sharing: which of several generation workers is asked for which actions."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import attrs

W = TypeVar("W", bound=Hashable)


class Message(NamedTuple, Generic[W]):
    """To `worker`: rows to answer, and whether it should begin at once, with however few."""

    worker: W
    rows: list[int]
    hungry: bool


@attrs.define
class _Worker:
    owed: dict[int, int] = attrs.field(factory=dict)
    """Row -> the oldest weights that may answer it."""
    version: int = -1
    """Weights that it had at its last answer."""
    under_way: int = 0
    """Rows that do not wait for newer weights; 0: it is free."""


@attrs.define(kw_only=True)
class Sharing(Generic[W]):
    """Requests wait here until a worker is free, so that none waits behind a call while another worker has nothing to
    do. A batch is given away when it is full, or when the simulation is hungry (`Batcher` says why).

    A single worker gets everything at once: nobody else could answer, and its next batch is there when it is free.
    Requests for weights that a worker may not have yet do not occupy it: they go out at once, too.
    """

    batch_size: int
    _workers: dict[W, _Worker] = attrs.field(factory=dict, init=False)
    _free: dict[W, None] = attrs.field(factory=dict, init=False)  # in the order in which they came free
    _under_way: int = attrs.field(default=0, init=False)  # of all workers
    _newest: int = attrs.field(default=-1, init=False)  # weights that anybody has answered with
    _waiting: deque[tuple[int, int]] = attrs.field(factory=deque, init=False)  # row, oldest weights
    _hungry: bool = attrs.field(default=False, init=False)

    def joined(self, worker: W) -> list[Message[W]]:
        """`worker` may be asked from now on."""
        self._workers[worker] = _Worker()
        self._free[worker] = None
        return list(self._given())

    def left(self, worker: W) -> list[Message[W]]:
        """`worker` is gone; others get what it owes. Nothing happens for one that is not known (any more)."""
        if (gone := self._workers.pop(worker, None)) is None:
            return []
        self._free.pop(worker, None)
        self._under_way -= gone.under_way
        self._waiting.extendleft(reversed(gone.owed.items()))
        self._hungry = True
        return list(self._given())

    def asked(self, rows: Sequence[int], oldest: Iterable[int], *, hungry: bool) -> list[Message[W]]:
        """oldest: of each row, the weights before which none may answer it. Without rows: only the hunger is new."""
        self._hungry = hungry
        entries = list(zip(rows, oldest, strict=True))
        if len(self._workers) == 1:
            (worker,) = self._workers
            return [self._give(worker, entries, hungry=hungry)]
        newest = self._newest if self._workers else math.inf
        self._waiting.extend(entry for entry in entries if entry[1] <= newest)
        return [*self._given_ahead([entry for entry in entries if entry[1] > newest]), *self._given()]

    def answered(self, worker: W, rows: Iterable[int], version: int) -> list[Message[W]]:
        """By weights of `version`."""
        one = self._workers[worker]
        one.version = max(one.version, version)
        self._newest = max(self._newest, version)
        for row in rows:
            one.owed.pop(row, None)
        self._count(worker)
        return list(self._given())

    def _given(self) -> Iterator[Message[W]]:
        if self._waiting and len(self._workers) == 1:
            (worker,) = self._workers
            yield self._give(worker, self._next(len(self._waiting)), hungry=self._hungry)
        while self._free and self._waiting and len(self._waiting) >= self._enough():
            yield self._give(next(iter(self._free)), self._next(self.batch_size), hungry=True)

    def _enough(self) -> int:
        """Requests that are worth a call: a free worker waits for its part of all that are open, as many small calls
        would take hardly less each than the fuller ones that could have been."""
        if not self._hungry:
            return self.batch_size
        return min(self.batch_size, (len(self._waiting) + self._under_way) // len(self._workers))

    def _given_ahead(self, entries: list[tuple[int, int]]) -> Iterator[Message[W]]:
        for start in range(0, len(entries), self.batch_size):
            least = min(self._workers, key=lambda worker: len(self._workers[worker].owed))
            yield self._give(least, entries[start : start + self.batch_size], hungry=True)

    def _next(self, most: int) -> list[tuple[int, int]]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def _give(self, worker: W, entries: list[tuple[int, int]], *, hungry: bool) -> Message[W]:
        self._workers[worker].owed.update(entries)
        self._count(worker)
        return Message(worker, [row for row, _ in entries], hungry)

    def _count(self, worker: W) -> None:
        one = self._workers[worker]
        self._under_way -= one.under_way
        one.under_way = sum(oldest <= one.version for oldest in one.owed.values())
        self._under_way += one.under_way
        if one.under_way:
            self._free.pop(worker, None)
        else:
            self._free.setdefault(worker)
