"""A trace: what every core, replica and device does at which time of a rehearsal."""

from __future__ import annotations

from typing import NamedTuple

from ebrl.rehearse.rehearsal import Rehearsal
from ebrl.rehearse.usage import CORES, GENERATION, SIMULATION, TRAINING

TRANSFERS = "transfers"
RESOURCES = (CORES, SIMULATION, GENERATION, TRAINING, TRANSFERS)


class Span(NamedTuple):
    """One piece of work."""

    resource: str
    """One of `RESOURCES`."""
    place: str
    """Core, or UUID of a device; on one place one thing happens at a time, but for transfers."""
    work: str
    """``step``, ``reset``, ``device part``, ``batch``, ``iteration`` or ``transfer``."""
    began_s: float
    ended_s: float
    number: int
    """Environment of a step or reset, requests of a batch, version that an iteration or transfer makes."""


class Trace:
    """Hears what `rehearsal` does from now on. Work that began before is part of it, work that goes on is not.

    A core here is one that the dispatcher has granted: what generation and training do on the host is on none.
    """

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.began_s = rehearsal.now_s
        self.spans: list[Span] = []
        self._rehearsal = rehearsal
        rehearsal.rollout.on_work = self._worked
        rehearsal.devices.on_part = lambda uuid, began_s: self._add(SIMULATION, uuid, "device part", began_s, 0)
        rehearsal.generation.on_call = lambda name, batch, began_s: self._add(GENERATION, name, "batch", began_s, batch)
        rehearsal.training.on_iteration = lambda began_s: self._of_version(TRAINING, "iteration", began_s, 1)
        rehearsal.on_transfer = lambda began_s: self._of_version(TRANSFERS, "transfer", began_s, 0)

    @property
    def ended_s(self) -> float:
        return self._rehearsal.now_s

    def busy_s(self, resource: str) -> float:
        """Seconds of work of all places of `resource` since the trace began."""
        return sum(span.ended_s - max(span.began_s, self.began_s) for span in self.spans if span.resource == resource)

    def _worked(self, environment: int, work: str, began_s: float) -> None:
        core = self._rehearsal.rollout.environments[environment].core
        self._add(CORES, str(core), work, began_s, environment)

    def _of_version(self, resource: str, work: str, began_s: float, more: int) -> None:
        self._add(resource, resource, work, began_s, self._rehearsal.version + more)

    def _add(self, resource: str, place: str, work: str, began_s: float, number: int) -> None:
        self.spans.append(Span(resource, place, work, began_s, self._rehearsal.now_s, number))
