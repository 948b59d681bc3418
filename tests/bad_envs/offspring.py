"""Simulators with processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

from bad_envs.counting import Counting, Faulty
from ebrl.graph.items import Observation, Step


class Returning(Faulty):
    """Forks in step `at`, and both come back."""

    fault = staticmethod(os.fork)  # type: ignore[assignment]


class ReturningAtImport(Counting):
    """Forks while it is warmed up, and both come back."""

    @staticmethod
    def warm() -> None:
        os.fork()


class Daemons(Counting):
    """Starts programs with sessions of their own, one of which has no parent either; appends their pids to `notes`."""

    def __init__(self, target: str, *, notes: str) -> None:
        super().__init__(target)
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
        orphan = subprocess.run(["sh", "-c", "setsid sleep 1000 >&- & echo $!"], stdout=subprocess.PIPE, text=True)
        with Path(notes).open("a") as file:
            file.write(f"{child}\n{orphan.stdout}")


class Sharing(Counting):
    """Has shared memory and a semaphore, and never gives them back; appends the name of the former to `notes`."""

    def __init__(self, target: str, *, notes: str) -> None:
        super().__init__(target)
        self.memory = shared_memory.SharedMemory(create=True, size=1000)
        self.semaphore = multiprocessing.get_context("spawn").Semaphore()
        with Path(notes).open("a") as file:
            file.write(f"{self.memory.name}\nsem.{self.semaphore._semlock.name[1:]}\n")  # type: ignore[attr-defined]


class Spawned(Counting):
    """Counts in a process that multiprocessing spawns."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.pool = multiprocessing.get_context("spawn").Pool(1)

    def step(self, action: Any) -> Step:
        assert self.pool.map(following, [self.count]) == [self.count + 1]
        return super().step(action)


def following(count: int) -> int:
    return count + 1


class FullDisk(Counting):
    """Nothing that it prints can be written."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    def look(self) -> Observation:
        print("x" * 10_000)
        print("y", file=sys.stderr, flush=True)
        return super().look()
