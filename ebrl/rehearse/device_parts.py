"""Device parts: what a chunk-step of a simulator that renders or computes on devices takes there, after its core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.clock import Clock
from ebrl.rehearse.truth import Draws

Call = Callable[[], None]


class DeviceParts:
    """One part after the other on each share, oldest first; an environment goes wherever a share is free.

    Simulators that step many environments in one call on a device appear as the many short calls that take as long.
    """

    def __init__(self, clock: Clock, draws: Draws) -> None:
        self._clock, self._draws = clock, draws
        self.on_part: Callable[[str, float], None] = lambda uuid, began_s: None
        """Hears what a share of a device has done, and since when."""
        self._free: list[tuple[str, str, float]] = []
        self._waiting: deque[Call] = deque()
        self.shares = 0
        self.busy = 0
        """Shares at work."""
        self.queued = 0
        """Chunk-steps that are here, at work or not."""

    def use(self, problem: Problem, allocation: Allocation) -> None:
        """Once, before anything begins: a simulator stays on its device."""
        models = {device.uuid: device.model for device in problem.devices}
        self._free = [(uuid, models[uuid], percent) for uuid, percent in allocation.simulation.items()]
        self.shares = len(self._free)

    def begin(self, done: Call) -> bool:
        """`done` when a part is over; False, and nothing happens, where there are no shares."""
        if not self.shares:
            return False
        self.queued += 1
        self._waiting.append(done)
        self._next()
        return True

    def _next(self) -> None:
        while self._free and self._waiting:
            share, done = self._free.pop(), self._waiting.popleft()
            self.busy += 1
            self._clock.after(
                self._draws.device_part_s(*share[1:]), partial(self._over, share, done, self._clock.now_s)
            )

    def _over(self, share: tuple[str, str, float], done: Call, began_s: float) -> None:
        self._free.append(share)
        self.busy -= 1
        self.queued -= 1
        self.on_part(share[0], began_s)
        self._next()
        done()
