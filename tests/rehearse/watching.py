"""A rehearsal that keeps what happened in it and when, for tests that look at it from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ebrl.rehearse.rehearsal import Rehearsal
from ebrl.rehearse.usage import State


@attrs.define(frozen=True)
class Work:
    """What an environment did on its core without a break."""

    environment: int
    kind: str
    began_s: float
    ended_s: float


@attrs.define(frozen=True)
class Answer:
    """Actions that arrived together."""

    at_s: float
    environments: tuple[int, ...]
    done: tuple[int, ...]
    """Chunks that every environment had finished by then."""


@attrs.define(frozen=True)
class Interval:
    """A time in which nothing changed."""

    began_s: float
    ended_s: float
    state: State


class Watched(Rehearsal):
    """`Rehearsal`, and all that its environments, its generation and its clock did."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.answers, self.works = list[Answer](), list[Work]()
        self._states = list[tuple[float, State]]()
        super().__init__(*arguments, **settings)
        self.done = [0] * self.problem.environments
        self.rollout.on_work = lambda index, kind, began_s: self.works.append(Work(index, kind, began_s, self.now_s))
        self.rollout.on_chunk = lambda index, began_s: self._finished(index)
        self._arrived = self.rollout.actions_arrived
        self.rollout.actions_arrived = self._answered  # type: ignore[method-assign]

    def state(self) -> State:
        """Is asked before time passes."""
        found = super().state()
        self._states.append((self.now_s, found))
        return found

    @property
    def intervals(self) -> list[Interval]:
        ends = [began_s for began_s, _ in self._states[1:]] + [self.now_s]
        return [Interval(began_s, end_s, state) for (began_s, state), end_s in zip(self._states, ends, strict=True)]

    @property
    def chunks(self) -> list[Work]:
        """Without resets."""
        return [work for work in self.works if work.kind == "step"]

    @property
    def trainings(self) -> list[Interval]:
        """One for each, from its beginning to its end."""
        found: list[Interval] = []
        for each in self.intervals:
            if not each.state.training_busy:
                continue
            if found and found[-1].ended_s == each.began_s:
                found[-1] = attrs.evolve(found[-1], ended_s=each.ended_s)
            else:
                found.append(each)
        return found

    def _answered(self, rows: Sequence[int], version: int) -> None:
        self.answers.append(Answer(self.now_s, tuple(rows), tuple(self.done)))
        self._arrived(rows, version)

    def _finished(self, index: int) -> None:
        self.done[index] += 1


def overlapping(works: Sequence[Work | Interval], others: Sequence[Work | Interval]) -> float:
    """Seconds that pairs of the two have in common."""
    return sum(
        max(0.0, min(one.ended_s, other.ended_s) - max(one.began_s, other.began_s)) for one in works for other in others
    )
