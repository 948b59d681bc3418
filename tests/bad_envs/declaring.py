"""Simulators that declare odd things, or not all the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from bad_envs.counting import Counting
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation


def ticket(notes: str) -> int:
    """How many processes have come here before; the folder `notes` keeps count."""
    for number in range(1000):
        try:
            (Path(notes) / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError


class Differing(Counting):
    """All processes but the first declare something else, and later."""

    def __init__(self, target: str, *, notes: str, what: str) -> None:
        super().__init__(target)
        if ticket(notes):
            time.sleep(1.0)  # the first to take a ticket shall be the first to declare
            self.spec = {
                "shape": spec(Space((1,)), Space((1,))),
                "type": spec(Space((4,), "float64"), Space((1,))),
                "key": SimulatorSpec(observation={"position": Space((4,))}, action=Space((1,))),
                "action": spec(Space((4,)), Space((3,))),
                "range": spec(Space((4,)), Space((1,), low=-2.0, high=2.0)),
            }[what]


def spec(state: Space, action: Space) -> SimulatorSpec:
    return SimulatorSpec(observation={"state": state}, action=action)


class Numpy(Counting):
    """Shapes and types as numpy has them."""

    spec = spec(Space((np.int64(4),), np.float32), Space([1], np.dtype("float32")))  # type: ignore[arg-type]


class Odd(Counting):
    """Declares what nobody can work with."""

    def __init__(self, target: str, *, what: str) -> None:
        super().__init__(target)
        declared: dict[str, Any] = {
            "no observation": lambda: SimulatorSpec(observation={}, action=Space((1,))),
            "number as key": lambda: SimulatorSpec(observation={1: Space((4,))}, action=Space((1,))),  # type: ignore[dict-item]
            "tuple as space": lambda: spec((4,), Space((1,))),  # type: ignore[arg-type]
            "no action": lambda: spec(Space((4,)), Space((0,))),
            "text as action": lambda: spec(Space((4,)), Space((), "str")),
            "shape": lambda: spec(Space(4), Space((1,))),  # type: ignore[arg-type]
            "negative shape": lambda: spec(Space((-4,)), Space((1,))),
            "type": lambda: spec(Space((4,), "float31"), Space((1,))),
            "objects": lambda: spec(Space((4,), "object"), Space((1,))),
        }
        self.spec = declared[what]()


class Double(Counting):
    """Computes in float64, and explodes at step 7 of the episodes with these `seeds`."""

    spec = spec(Space((4,), "float64"), Space((1,)))

    def __init__(self, target: str, *, seeds: Any = (), **options: Any) -> None:
        super().__init__(target, **options)
        self.seeds = seeds

    def look(self) -> Observation:
        state = super().look()["state"].astype(np.float64)
        if self.count == 7 and self.seed in self.seeds:
            state[1] = -1e300
        return Observation(state=state)


class Large(Counting):
    """Declares more than any memory holds."""

    def __init__(self, target: str, *, what: str) -> None:
        super().__init__(target)
        self.spec = {
            "image": spec(Space((10**9, 10**9)), Space((1,))),
            "overflow": spec(Space((10**10, 10**10), "float64"), Space((1,))),
            "action": spec(Space((4,)), Space((10**15,))),
        }[what]
