"""Simulators that say how they may be forked, and whether they were."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path

import numpy as np

from bad_envs.counting import Counting
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation


class Inherited(Counting):
    """May be built before the fork; every building appends the pid to `notes`."""

    fork_safe = True

    def __init__(self, target: str, *, notes: str) -> None:
        super().__init__(target)
        with Path(notes).open("a") as file:
            file.write(f"{os.getpid()}\n")


class Drawing(Inherited):
    """Built with these options it must not be inherited."""

    def __init__(self, target: str, *, notes: str) -> None:
        super().__init__(target, notes=notes)
        self.fork_safe = False


class Unsafe(Inherited):
    """Must never be forked."""

    fork_safe = False


class Starting(Inherited):
    """Importing it starts a thread."""

    @staticmethod
    def warm() -> None:
        threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()


class Refusing(Inherited):
    """Its warming up fails where it is done for others."""

    @staticmethod
    def warm() -> None:
        if "ebrl.runtime.warm_child" in sys.argv:
            raise OSError("no licence server")


class Lingering(Counting):
    """May be built before the fork, and hangs then."""

    fork_safe = True

    def __init__(self, target: str) -> None:
        time.sleep(1e6)


class Careless(Counting):
    """Draws from global generators, whatever its seed."""

    spec = SimulatorSpec(observation={"state": Space((2,))}, action=Space((1,)))
    fork_safe = True

    def look(self) -> Observation:
        return Observation(state=np.array([random.random(), np.random.rand()], np.float32))
