"""Barriers: what a schedule makes wait for what. The barrier-free schedule uses none of them."""

from __future__ import annotations

from collections.abc import Collection

import attrs


@attrs.define
class StepBarrier:
    """Lock-step: no environment gets a new chunk before all active ones have finished theirs."""

    _arrived: set[int] = attrs.field(factory=set, init=False)

    def arrived(self, environment: int) -> None:
        self._arrived.add(environment)

    def remove(self, environment: int) -> None:
        self._arrived.discard(environment)

    @property
    def waiting(self) -> int:
        """Environments that it holds."""
        return len(self._arrived)

    def release(self, active: Collection[int]) -> list[int]:
        """All that arrived, in order of environment, once nobody in `active` is missing."""
        if not self._arrived or not self._arrived.issuperset(active):
            return []
        released = sorted(self._arrived)
        self._arrived.clear()
        return released
