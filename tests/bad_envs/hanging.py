from __future__ import annotations

import ctypes
import time
from typing import Any

from bad_envs.counting import Faulty
from ebrl.graph.items import Observation


class HangingStep(Faulty):
    """`step` sleeps for ever."""

    def fault(self) -> None:
        time.sleep(1e6)


class HangingNative(Faulty):
    """`step` hangs in native code that holds the interpreter."""

    def fault(self) -> None:
        ctypes.PyDLL(None).sleep(1_000_000)


class HangingReset(Faulty):
    """`reset` sleeps for ever."""

    def reset(self, seed: int) -> Observation:
        super().reset(seed)
        if self.chosen():
            time.sleep(1e6)
        return self.look()


class HangingStart(Faulty):
    """`__init__` sleeps for ever."""

    def __init__(self, target: str, **options: Any) -> None:
        time.sleep(1e6)


class HangingClose(Faulty):
    """`close` sleeps for ever."""

    def close(self) -> None:
        time.sleep(1e6)


class Slow(Faulty):
    """`step` takes its time."""

    def __init__(self, target: str, *, step_s: float, **options: Any) -> None:
        super().__init__(target, **options)
        self.step_s = step_s

    def fault(self) -> None:
        time.sleep(self.step_s)


class SlowReset(Faulty):
    """`reset` takes its time."""

    def __init__(self, target: str, *, reset_s: float, **options: Any) -> None:
        super().__init__(target, **options)
        self.reset_s = reset_s

    def reset(self, seed: int) -> Observation:
        super().reset(seed)
        if self.chosen():
            time.sleep(self.reset_s)
        return self.look()
