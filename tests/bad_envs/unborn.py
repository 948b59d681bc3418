"""Faults of making a simulator."""

from __future__ import annotations

import time

from bad_envs.counting import Counting
from bad_envs.declaring import ticket
from ebrl.errors import SimulatorNotFound


class NoisyCleanup(Counting):
    """`__init__` and `__del__` raise."""

    def __init__(self, target: str) -> None:
        raise RuntimeError("no display")

    def __del__(self) -> None:
        self.viewer.close()  # type: ignore[attr-defined]


class FailedCleanup(Counting):
    """`__init__` raises, and so does its own cleaning up."""

    def __init__(self, target: str) -> None:
        try:
            raise RuntimeError("no display")
        finally:
            self.viewer.close()  # type: ignore[attr-defined]


class Translated(Counting):
    """`__init__` raises one error on purpose from another."""

    def __init__(self, target: str) -> None:
        try:
            raise KeyError("lift_v7")
        except KeyError as cause:
            raise ValueError("there is no task lift_v7") from cause


class NotFound(Counting):
    """The backend knows what the user did wrong."""

    def __init__(self, target: str) -> None:
        raise SimulatorNotFound(f"no task {target!r}", hint="did you mean 'Lift'?")


def nothing(target: str) -> None:
    """A factory that forgot to return."""


class WithoutSpec:
    """No `spec`."""

    def __init__(self, target: str) -> None: ...


class FirstOnly(Counting):
    """Of all processes the first cannot be made; the others take longer to find out that they can."""

    def __init__(self, target: str, *, notes: str, first: int = 1) -> None:
        super().__init__(target)
        if ticket(notes) < first:
            raise RuntimeError("the licence server is busy")
        time.sleep(1.0)
