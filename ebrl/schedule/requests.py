"""Requests: which environments ask the actor for actions, and which of them it has not answered yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import attrs

from ebrl.schedule.barriers import StepBarrier


class Actor(Protocol):
    """Where actions come from. Each request is answered once, through `Rollout.actions_arrived`."""

    def request(self, rows: Sequence[int], *, hungry: bool) -> None: ...


@attrs.define(kw_only=True)
class Requests:
    """Collects requests until `batch_size` have come together or the cores have run out of work; behind
    barriers, until all environments of a group have asked. Each message wakes a process, so fewer are better, and
    while every core has work nobody waits for an answer."""

    batch_size: int = 1
    barriers: Sequence[StepBarrier] = ()
    """One for each group; a row belongs to group row modulo their number."""
    _open: list[int] = attrs.field(factory=list, init=False)
    _unanswered: set[int] = attrs.field(factory=set, init=False)
    _told_hungry: bool = attrs.field(default=False, init=False)

    def add(self, row: int) -> bool:
        """Slot `row` shows an observation that needs actions. False, and nothing is asked, while actions for
        a process that died meanwhile may still be on their way into that slot."""
        if row in self._unanswered:
            return False
        if self.barriers:
            self._barrier(row).arrived(row)
        else:
            self._open.append(row)
        return True

    def withdraw(self, row: int) -> None:
        """The environment wants no actions any more."""
        if row in self._open:
            self._open.remove(row)
        if self.barriers:
            self._barrier(row).remove(row)

    @property
    def at_barriers(self) -> int:
        """Rows that have asked and wait for others of their group."""
        return sum(barrier.waiting for barrier in self.barriers) if self.barriers else 0

    @property
    def unanswered(self) -> int:
        """Rows that wait for actions, whether the actor knows of them or not."""
        return len(self._open) + len(self._unanswered)

    def answered(self, rows: Sequence[int]) -> None:
        self._unanswered.difference_update(rows)

    def send(self, actor: Actor | None, *, hungry: bool, active: Callable[[], Collection[int]]) -> bool:
        """Send what may be sent, and that the cores ran out of work if the actor still owes actions.

        active: the environments that barriers wait for.
        """
        if self.barriers:
            self._release(active())
        due = bool(self._open) and (hungry or len(self._open) >= self.batch_size or bool(self.barriers))
        if not due and (not hungry or self._told_hungry or not self._unanswered):
            return False
        assert actor is not None
        self._told_hungry = hungry
        while True:
            rows = self._together()
            self._open = [row for row in self._open if row not in rows]
            self._ask(actor, rows, hungry)
            if not self._open:
                return True

    def _together(self) -> list[int]:
        """What one message asks for: a batch, so that several generation workers share what comes all at once; of one
        group, where there are any."""
        together = self._open
        if self.barriers:
            together = [row for row in self._open if self._barrier(row) is self._barrier(self._open[0])]
        return together[: self.batch_size]

    def _barrier(self, row: int) -> StepBarrier:
        return self.barriers[row % len(self.barriers)]

    def _release(self, active: Collection[int]) -> None:
        for barrier in self.barriers:
            self._open += barrier.release([row for row in active if self._barrier(row) is barrier])

    def _ask(self, actor: Actor, rows: list[int], hungry: bool) -> None:
        self._unanswered.update(rows)
        try:
            actor.request(rows, hungry=hungry)
        except BaseException:
            self._unanswered.difference_update(rows)
            self._open = rows + self._open
            raise
