"""Simulators that take liberties with their process and must not come to harm, nor do any."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from bad_envs.counting import Counting, Faulty
from ebrl.graph.items import Observation, Step


class Asking(Faulty):
    """`step` calls input()."""

    def fault(self) -> None:
        input("Press Enter to go on")


class Babbling(Faulty):
    """`step` prints to every pipe that it finds."""

    def fault(self) -> None:
        for entry in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{entry}").startswith("pipe:"):
                    os.write(int(entry), b"Simulation time: 0.07 s\n")


class Printing(Counting):
    """Prints more than a pipe holds."""

    def reset(self, seed: int) -> Observation:
        print("x" * 200_000)
        os.write(1, b"y" * 200_000)
        return super().reset(seed)


class Alarming(Counting):
    """Uses SIGALRM, and insists on one thread."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        self.alarms, self.thread = 0, threading.get_ident()
        signal.signal(signal.SIGALRM, self.alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)

    def alarm(self, *_: Any) -> None:
        self.alarms += 1

    def step(self, action: Any) -> Step:
        assert threading.get_ident() == self.thread
        while not self.alarms:
            time.sleep(0.001)
        return super().step(action)


class Threading(Counting):
    """Leaves threads behind that never end."""

    def reset(self, seed: int) -> Observation:
        threading.Thread(target=time.sleep, args=(1e6,)).start()
        return super().reset(seed)


class Spawning(Counting):
    """Starts a program that outlives it; `notes` says where to write its pid."""

    def __init__(self, target: str, *, notes: str, fork: bool = False) -> None:
        super().__init__(target)
        # A fork inherits all of its parent, a program what is not closed on purpose.
        if not (pid := os.fork() if fork else os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)):
            time.sleep(1000)
            os._exit(0)
        Path(notes).write_text(str(pid))


class Closing(Counting):
    """`close` takes a moment and leaves a note."""

    def __init__(self, target: str, *, notes: str) -> None:
        super().__init__(target)
        self.notes = notes

    def close(self) -> None:
        time.sleep(0.1)
        Path(self.notes).write_text("closed")


class Surroundings(Counting):
    """Shows how many threads numerical libraries may start, and on how many cores."""

    def look(self) -> Observation:
        threads = int(os.environ["OMP_NUM_THREADS"])
        return Observation(state=np.array([threads, len(os.sched_getaffinity(0)), 0, 0], np.float32))
