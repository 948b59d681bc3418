"""The training of a rehearsal: one iteration at a time, on the parts that its devices make of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable

from ebrl.planner.costs import CPU
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.clock import Clock, SharedCores, call
from ebrl.rehearse.truth import Draws


class Training:
    """Follows an allocation from its next iteration on."""

    def __init__(self, clock: Clock, cores: SharedCores, draws: Draws, iteration: int) -> None:
        self._clock, self._cores, self._draws, self._iteration = clock, cores, draws, iteration
        self._parts: list[tuple[str, float]] = []
        self._paused_until_s = 0.0
        self.on_iteration: Callable[[float], None] = lambda began_s: None
        """Hears when an iteration has ended, and since when it went on."""
        self.busy = False
        self.rate = 0.0
        """Chunk-steps per second of the time that the last iteration took."""

    def use(self, problem: Problem, allocation: Allocation, pause_s: float) -> None:
        models = {device.uuid: device.model for device in problem.devices}
        parts: list[tuple[str, float]] = [(models[uuid], percent) for uuid, percent in allocation.training.items()]
        parts = parts or [(CPU, allocation.training_threads)]
        if self._parts and parts != self._parts:
            self._paused_until_s = self._clock.now_s + pause_s
        self._parts = parts

    def begin(self, done: Callable[[], None]) -> None:
        self.busy = True
        self._clock.after(max(0.0, self._paused_until_s - self._clock.now_s), lambda: self._begin(done))

    def _begin(self, done: Callable[[], None]) -> None:
        began_s, on_cpu = self._clock.now_s, self._parts[0][0] == CPU
        costs = self._draws.training_s(self._parts, math.ceil(self._iteration / len(self._parts)))
        left = len(costs)

        def part_done() -> None:
            nonlocal left
            left -= 1
            if left:
                return
            self.busy = False
            # On the CPU a run measures CPU time: what it takes does not depend on who else wants the cores.
            taken_s = costs[0][0] if on_cpu else self._clock.now_s - began_s
            self.rate = self._iteration / taken_s
            self.on_iteration(began_s)
            done()

        for seconds, core_s in costs:
            call(self._clock, self._cores, seconds=seconds, core_s=core_s, done=part_done)
