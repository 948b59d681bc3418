"""Learning: what the first iterations of a run show of its costs, where no profile tells them.

The training is measured with the plan's threads, then with half of them, and so on while that saves CPU time, then with
twice as many, and so on while that makes it faster. Every measurement is an iteration that counts; nothing is computed
for it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean

import attrs

from ebrl.planner.costs import Point
from ebrl.planner.feedback import Measurement

SKIP, LEARN = 2, 5
"""Iterations that still start things, and those after them that are learned from."""
_SETTLE, _TRY = 1, 3
"""The same with each other number of training threads."""
_MATTERS = 0.1
"""So much of the time must a number of threads save for the next one to be tried."""


@attrs.define(kw_only=True)
class Learning:
    """`observe` iterations, each trained with `threads` threads, until it is `done`."""

    planned: int
    """Training threads of the plan."""
    most: int
    fixed: bool = False
    """Whether no others than those of the plan are tried."""
    threads: int = attrs.field(init=False)
    done: bool = attrs.field(default=False, init=False)
    _seen: dict[int, list[Measurement]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.threads = self.planned

    def observe(self, measured: Measurement) -> None:
        """One iteration with `threads` is over."""
        seen = self._seen.setdefault(self.threads, [])
        seen.append(measured)
        if len(seen) < (SKIP + LEARN if self.threads == self.planned else _SETTLE + _TRY):
            return
        following = next(self._worth_trying(), None)
        self.threads, self.done = following or self.planned, following is None

    @property
    def steps(self) -> int:
        """Iterations so far."""
        return sum(map(len, self._seen.values()))

    @property
    def kept(self) -> list[Measurement]:
        """Under the plan."""
        return self._seen[self.planned][SKIP:]

    def training(self, iteration: int) -> tuple[Point, ...]:
        """What an iteration of `iteration` chunk-steps costs with each number of threads that was tried."""
        return tuple(
            Point(
                quota=threads,
                batch=iteration,
                seconds=iteration * self._seconds(threads),
                core_s=iteration * self._core_seconds(threads),
            )
            for threads in sorted(self._seen)
        )

    def _worth_trying(self) -> Iterator[int]:
        if self.fixed:
            return
        counts = sorted(self._seen)
        fewest, largest = counts[0], counts[-1]
        if fewest > 1 and (fewest == self.planned or self._saves(self._core_seconds, counts[1], fewest)):
            yield fewest // 2
        if 2 * largest <= self.most and (largest == self.planned or self._saves(self._seconds, counts[-2], largest)):
            yield 2 * largest

    def _saves(self, cost: Callable[[int], float], before: int, after: int) -> bool:
        return cost(after) < (1 - _MATTERS) * cost(before)

    def _core_seconds(self, threads: int) -> float:
        return threads * self._seconds(threads)

    def _seconds(self, threads: int) -> float:
        """Of training, per chunk-step."""
        seen = self._seen[threads]
        return fmean(1.0 / entry.training_rate for entry in seen[-(LEARN if threads == self.planned else _TRY) :])
