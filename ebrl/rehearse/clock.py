"""Clock: virtual time, and what happens in it in which order."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

Call = Callable[[], None]


class Clock:
    """Calls what was asked for at its time; what is due at once goes in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Call]] = []
        self._asked = 0
        self._cores: list[SharedCores] = []
        self.on_passing: Callable[[float], None] = lambda seconds: None
        """Hears how long nothing changes, before the next thing happens."""

    def after(self, seconds: float, call: Call) -> None:
        self._asked += 1
        heapq.heappush(self._due, (self.now_s + seconds, self._asked, call))

    def cores(self, count: int) -> SharedCores:
        """`count` cores whose work happens in this time."""
        self._cores.append(made := SharedCores(self, count))
        return made

    def advance(self) -> bool:
        """Let the next thing happen; False when nothing will ever again."""
        at_s = self._due[0][0] if self._due else math.inf
        first = None
        for cores in self._cores:
            if (done_s := cores.next_s()) < at_s:
                at_s, first = done_s, cores
        if at_s == math.inf:
            return False
        if at_s > self.now_s:
            self.on_passing(at_s - self.now_s)
            self.now_s = at_s
        if first is not None:
            first.finish()
        else:
            heapq.heappop(self._due)[2]()
        return True


class SharedCores:
    """Cores under a fair scheduler: of more threads than cores every one runs at the same part of its speed.

    As all have the same speed, what matters is how far one thread alone would have come since the beginning
    (`_progress_s`): a thread is done when that has grown by its work.
    """

    def __init__(self, clock: Clock, count: int) -> None:
        self.count = count
        self.used_s = 0.0
        """CPU time of everything that was begun."""
        self._clock = clock
        self._progress_s = self._seen_s = 0.0
        self._speed = 1.0
        """Of each thread, as a share of that of one alone."""
        self._threads: list[tuple[float, int, Call]] = []  # by the progress at which they end
        self._begun = 0

    def run(self, core_s: float, done: Call) -> None:
        """One thread with so much work, from now on."""
        self._catch_up()
        self._begun += 1
        self.used_s += core_s
        heapq.heappush(self._threads, (self._progress_s + core_s, self._begun, done))
        self._share_out()

    @property
    def busy(self) -> int:
        """Cores that are at work."""
        return min(self.count, len(self._threads))

    def next_s(self) -> float:
        """When the next thread is done, if nothing begins before."""
        if not self._threads:
            return math.inf
        return self._seen_s + (self._threads[0][0] - self._progress_s) / self._speed

    def finish(self) -> None:
        """The clock has reached `next_s`."""
        self._seen_s, self._progress_s = self._clock.now_s, self._threads[0][0]
        done = heapq.heappop(self._threads)[2]
        self._share_out()
        done()

    def _catch_up(self) -> None:
        self._progress_s += (self._clock.now_s - self._seen_s) * self._speed
        self._seen_s = self._clock.now_s

    def _share_out(self) -> None:
        threads = len(self._threads)
        self._speed = self.count / threads if threads > self.count else 1.0


def call(clock: Clock, cores: SharedCores, *, seconds: float, core_s: float, done: Call) -> None:
    """A call of a stage that takes `seconds` while nobody disturbs it, and `core_s` of CPU time.

    Its threads first do their work, as many as are needed to do it within `seconds`; the rest of the time
    the call waits for a device. Where others want the cores too, only the first part takes longer.
    """
    threads = max(1, math.ceil(core_s / seconds - 1e-9))
    each_s = core_s / threads
    left = threads

    def thread_done() -> None:
        nonlocal left
        left -= 1
        if not left:
            clock.after(max(0.0, seconds - each_s), done)

    for _ in range(threads):
        cores.run(each_s, thread_done)
