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
    """Collects requests until `batch_size` have come together or the cores have run out of work; behind a
    barrier, until all environments have asked. Each message wakes a process, so fewer are better, and
    while every core has work nobody waits for an answer."""

    batch_size: int = 1
    barrier: StepBarrier | None = None
    _open: list[int] = attrs.field(factory=list, init=False)
    _unanswered: set[int] = attrs.field(factory=set, init=False)
    _told_hungry: bool = attrs.field(default=False, init=False)

    def add(self, row: int) -> bool:
        """Slot `row` shows an observation that needs actions. False, and nothing is asked, while actions for
        a process that died meanwhile may still be on their way into that slot."""
        if row in self._unanswered:
            return False
        if self.barrier is not None:
            self.barrier.arrived(row)
        else:
            self._open.append(row)
        return True

    def withdraw(self, row: int) -> None:
        """The environment wants no actions any more."""
        if row in self._open:
            self._open.remove(row)
        if self.barrier is not None:
            self.barrier.remove(row)

    def answered(self, rows: Sequence[int]) -> None:
        self._unanswered.difference_update(rows)

    def send(self, actor: Actor | None, *, hungry: bool, active: Callable[[], Collection[int]]) -> bool:
        """Send what may be sent, and that the cores ran out of work if the actor still owes actions.

        active: the environments that a barrier waits for.
        """
        if self.barrier is not None:
            self._open += self.barrier.release(active())
        due = bool(self._open) and (hungry or len(self._open) >= self.batch_size or self.barrier is not None)
        if not due and (not hungry or self._told_hungry or not self._unanswered):
            return False
        assert actor is not None
        self._told_hungry = hungry
        # A batch at a time, so that several generation workers share what comes all at once.
        size = self.batch_size if self.barrier is None else max(1, len(self._open))
        while True:
            rows, self._open = self._open[:size], self._open[size:]
            self._ask(actor, rows, hungry)
            if not self._open:
                return True

    def _ask(self, actor: Actor, rows: list[int], hungry: bool) -> None:
        self._unanswered.update(rows)
        try:
            actor.request(rows, hungry=hungry)
        except BaseException:
            self._unanswered.difference_update(rows)
            self._open = rows + self._open
            raise
