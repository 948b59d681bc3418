"""Batcher: which observations form the next generation batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import attrs

T = TypeVar("T", bound=Hashable)


@attrs.define(kw_only=True)
class Batcher(Generic[T]):
    """Collects requests until a batch is full, or until a simulator is hungry.

    Waiting for a fuller batch costs nothing while every core still has work. A simulation is *hungry*
    when its last ready environment went to a core: from then on waiting costs core time, and whatever
    has arrived is served. So no timeout needs tuning, and a fast policy never holds a core up.
    """

    batch_size: int
    """Most requests of one batch."""
    _waiting: deque[T] = attrs.field(factory=deque, init=False)
    _held: dict[T, int] = attrs.field(factory=dict, init=False)
    _hungry: bool = attrs.field(default=False, init=False)

    def arrived(self, requests: Iterable[T], *, min_versions: Iterable[int], version: int, hungry: bool) -> None:
        """Requests that weights older than their `min_versions` must not serve; `version` is the present one."""
        for request, min_version in zip(requests, min_versions, strict=True):
            if min_version <= version:
                self._waiting.append(request)
            else:
                self._held[request] = min_version
        self._hungry = self._hungry or hungry

    def published(self, version: int) -> None:
        """Weights of `version` are loaded: requests that waited for them may be served."""
        for request in [request for request, needed in self._held.items() if needed <= version]:
            del self._held[request]
            self._waiting.append(request)

    def take(self) -> list[T]:
        """The next batch, oldest requests first; empty while waiting is free."""
        if len(self._waiting) < self.batch_size and not self._hungry:
            return []
        batch = [self._waiting.popleft() for _ in range(min(self.batch_size, len(self._waiting)))]
        if not self._waiting and not self._held:
            self._hungry = False
        return batch

    def forget(self, requests: Iterable[T]) -> None:
        """The simulation behind these requests is gone."""
        gone = set(requests)
        self._waiting = deque(request for request in self._waiting if request not in gone)
        self._held = {request: needed for request, needed in self._held.items() if request not in gone}

    @property
    def held(self) -> int:
        """Requests that wait for newer weights."""
        return len(self._held)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._held)

    def __contains__(self, request: T) -> bool:
        return request in self._waiting or request in self._held

    def requests(self) -> list[T]:
        return [*self._waiting, *self._held]
