"""Recycling: which environment processes give way to fresh ones because their memory grew."""

from __future__ import annotations

import attrs

GROWTH = 1.2
"""A process that has not grown by this factor since its first episode ended is kept: a fresh one would be as large."""
SHARE = 0.6
"""Part of the machine's memory that the environments may fill: the other stages live on it too."""


@attrs.define(kw_only=True)
class Recycling:
    """Follows resident sizes, and says at the end of an episode whether its process is to be replaced.

    A simulator that leaks a few MB per reset would otherwise fill the machine within hours. A process is due
    when it is larger than `limit_mib` and has grown since its first measurement. Environments are known by
    number; a replaced process starts without a past.
    """

    limit_mib: float
    """Resident size of one process above which growth is not tolerated, in MiB."""
    recycled: int = 0
    """Processes that were replaced so far."""
    _first_mib: dict[int, float] = attrs.field(factory=dict, init=False)
    _last_mib: dict[int, float] = attrs.field(factory=dict, init=False)

    def measured(self, environment: int, resident_mib: float) -> None:
        """An episode of `environment` is over and its process has this resident size; the first counts as what
        it needs."""
        self._first_mib.setdefault(environment, resident_mib)
        self._last_mib[environment] = resident_mib

    def due(self, environment: int) -> bool:
        """Whether the process of `environment` is to be replaced before its next episode."""
        last_mib = self._last_mib.get(environment, 0.0)
        return last_mib > max(self.limit_mib, GROWTH * self._first_mib.get(environment, 0.0))

    def replaced(self, environment: int, *, on_purpose: bool) -> None:
        """The process of `environment` is gone; `on_purpose` where `due` said so."""
        self.recycled += on_purpose
        self._first_mib.pop(environment, None)
        self._last_mib.pop(environment, None)

    @property
    def resident_mib(self) -> float:
        """The newest sizes of all processes together."""
        return sum(self._last_mib.values())

    @property
    def largest_mib(self) -> float:
        """The newest size of the largest process."""
        return max(self._last_mib.values(), default=0.0)


def fair_share_mib(memory_mib: int | None, environments: int) -> float:
    """The default limit of one of `environments` on a machine (or in a cgroup) of `memory_mib`; infinite where
    that is not known."""
    return float("inf") if memory_mib is None else SHARE * memory_mib / max(1, environments)
