"""Sharing: which of several generation workers is asked for which actions."""

from __future__ import annotations

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

    @property
    def under_way(self) -> int:
        """Rows that do not wait for newer weights; 0: it is free."""
        return sum(oldest <= self.version for oldest in self.owed.values())


@attrs.define(kw_only=True)
class Sharing(Generic[W]):
    """Requests wait here until a worker is free, so that none waits behind a call while another worker has nothing to
    do. A batch is given away when it is full, or when the simulation is hungry (`Batcher` says why).

    A single worker gets everything at once: nobody else could answer, and its next batch is there when it is free.
    Requests for weights that a worker may not have yet do not occupy it: they go out at once, too.
    """

    batch_size: int
    _workers: dict[W, _Worker] = attrs.field(factory=dict, init=False)
    _waiting: deque[tuple[int, int]] = attrs.field(factory=deque, init=False)  # row, oldest weights
    _hungry: bool = attrs.field(default=False, init=False)

    def joined(self, worker: W) -> list[Message[W]]:
        """`worker` may be asked from now on."""
        self._workers[worker] = _Worker()
        return self._messages()

    def left(self, worker: W) -> list[Message[W]]:
        """`worker` is gone; others get what it owes. Nothing happens for one that is not known (any more)."""
        if (gone := self._workers.pop(worker, None)) is None:
            return []
        self._waiting.extendleft(reversed(gone.owed.items()))
        self._hungry = True
        return self._messages()

    def asked(self, rows: Sequence[int], oldest: Iterable[int], *, hungry: bool) -> list[Message[W]]:
        """oldest: of each row, the weights before which none may answer it. Without rows: only the hunger is new."""
        self._waiting.extend(zip(rows, oldest, strict=True))
        self._hungry = hungry
        if hungry and not rows and len(self._workers) == 1:
            return [Message(worker, [], True) for worker in self._workers]
        return self._messages()

    def answered(self, worker: W, rows: Iterable[int], version: int) -> list[Message[W]]:
        """By weights of `version`."""
        one = self._workers[worker]
        one.version = max(one.version, version)
        for row in rows:
            one.owed.pop(row, None)
        return self._messages()

    def _messages(self) -> list[Message[W]]:
        return list(self._given()) if self._waiting and self._workers else []

    def _given(self) -> Iterator[Message[W]]:
        if len(self._workers) == 1:
            (worker,) = self._workers
            yield self._give(worker, self._next(len(self._waiting)), hungry=self._hungry)
            return
        yield from self._given_ahead()
        while self._waiting and len(self._waiting) >= self._enough():
            free = next((worker for worker, one in self._workers.items() if not one.under_way), None)
            if free is None:
                return
            yield self._give(free, self._next(self.batch_size), hungry=True)

    def _enough(self) -> int:
        """Requests that are worth a call: a free worker waits for its part of all that are open, as many small calls
        would take hardly less each than the fuller ones that could have been."""
        if not self._hungry:
            return self.batch_size
        unanswered = len(self._waiting) + sum(one.under_way for one in self._workers.values())
        return min(self.batch_size, unanswered // len(self._workers))

    def _given_ahead(self) -> Iterator[Message[W]]:
        newest = max(one.version for one in self._workers.values())
        ahead = [entry for entry in self._waiting if entry[1] > newest]
        if ahead:
            self._waiting = deque(entry for entry in self._waiting if entry[1] <= newest)
        for start in range(0, len(ahead), self.batch_size):
            least = min(self._workers, key=lambda worker: len(self._workers[worker].owed))
            yield self._give(least, ahead[start : start + self.batch_size], hungry=True)

    def _next(self, most: int) -> list[tuple[int, int]]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def _give(self, worker: W, entries: list[tuple[int, int]], *, hungry: bool) -> Message[W]:
        self._workers[worker].owed.update(entries)
        return Message(worker, [row for row, _ in entries], hungry)
