"""Windows: which environment records which part of which trajectory batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs


@attrs.define(frozen=True)
class Window:
    """A run of consecutive chunk-steps that one environment contributes to a trajectory batch."""

    batch: int
    index: int
    min_version: int = 0
    """Weights older than this must not generate its chunks."""


@attrs.define(kw_only=True)
class Windows:
    """Hands the windows of admitted batches to environments that are free.

    Barrier-free (`in_order` False): whoever is free takes the next window of the oldest batch, so a fast
    environment records more. In order: window i of every batch belongs to environment i modulo their number,
    whatever the timing; the results are then the same on every machine.
    """

    environments: Sequence[int]
    in_order: bool = False
    _open: deque[Window] = attrs.field(factory=deque, init=False)
    _missing: dict[int, int] = attrs.field(factory=dict, init=False)
    _alive: list[int] = attrs.field(init=False)

    @_alive.default
    def _all(self) -> list[int]:
        return list(self.environments)

    def admit(self, batch: int, count: int, min_version: int = 0) -> None:
        """`batch` may start: it needs `count` windows."""
        self._missing[batch] = count
        self._open.extend(Window(batch, index, min_version) for index in range(count))

    def take(self, environment: int) -> Window | None:
        """The next window for a free environment, None when nothing is admitted for it."""
        for position, window in enumerate(self._open):
            if not self.in_order or self._owner(window) == environment:
                del self._open[position]
                return window
        return None

    def done(self, window: Window) -> bool:
        """`window` is recorded; True when its batch is complete."""
        self._missing[window.batch] -= 1
        if self._missing[window.batch]:
            return False
        del self._missing[window.batch]
        return True

    def give_back(self, window: Window) -> None:
        """Nothing was recorded: another environment may take it, in its turn."""
        behind = sum(1 for other in self._open if (other.batch, other.index) < (window.batch, window.index))
        self._open.insert(behind, window)

    def remove(self, environment: int) -> None:
        """`environment` will not come back; its turns go to the others."""
        self._alive.remove(environment)

    @property
    def admitted(self) -> int:
        """Windows that nobody has taken yet."""
        return len(self._open)

    def clear(self) -> None:
        self._open.clear()
        self._missing.clear()

    def _owner(self, window: Window) -> int:
        return self._alive[window.index % len(self._alive)]
