"""Steady state: the part of a training run that is measured, by one rule for every variant.

The first iterations are left out, with everything before them: start of processes, imports, first
resets, lazy initialisation, and the filling of a pipeline. Then whole iterations are counted, from the
end of one training to the end of a later one. The run goes on behind the last of them, so that no
variant is measured while its pipeline runs empty.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil


class SteadyState:
    """Told about every iteration that ends; says when enough has been measured.

    skip: iterations before the measurement; measure_s: its least duration in seconds.
    counters: growing numbers, read at both ends of the measurement, where "machine" is added: CPU seconds
        of all programs, so that what others took meanwhile shows.
    """

    def __init__(
        self, *, skip: int, measure_s: float, steps_per_iteration: int, counters: Callable[[], Mapping[str, float]]
    ) -> None:
        self._skip, self._measure_s = skip, measure_s
        self._steps_per_iteration = steps_per_iteration
        self._counters = counters
        self._done = 0
        self._first: tuple[float, Mapping[str, float]] | None = None
        self._last: tuple[float, Mapping[str, float]] | None = None

    def iteration_done(self) -> bool:
        """An iteration, training included, has just ended. True: the measurement is complete."""
        if self._last is not None:
            return True
        self._done += 1
        now_s = time.monotonic()
        if self._first is None:
            if self._done >= self._skip:
                self._first = (now_s, self._read())
        elif now_s - self._first[0] >= self._measure_s:
            self._last = (now_s, self._read())
        return self._last is not None

    def result(self) -> dict[str, Any]:
        """Iterations, environment steps that were trained on, their rate, and how the counters grew."""
        if self._first is None or self._last is None:
            raise ValueError("the run ended before the measurement was complete")
        iterations, wall_s = self._done - self._skip, self._last[0] - self._first[0]
        env_steps = iterations * self._steps_per_iteration
        before, after = self._first[1], self._last[1]
        return {
            "iterations": iterations,
            "wall_s": wall_s,
            "env_steps": env_steps,
            "env_steps_per_s": env_steps / wall_s,
            "cores": len(os.sched_getaffinity(0)),
            "grown": {name: after[name] - before[name] for name in after},
        }

    def _read(self) -> dict[str, float]:
        return {"machine": machine_cpu_s(), **self._counters()}


def machine_cpu_s() -> float:
    """CPU seconds of everything on this machine."""
    times = psutil.cpu_times()._asdict()
    return sum(float(times[name]) for name in ("user", "nice", "system", "irq", "softirq", "steal") if name in times)


def own_cpu_s() -> float:
    """CPU seconds of this process, all threads."""
    return time.process_time()


def descendants_cpu_s() -> float:
    """CPU seconds of all living processes below this one."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
