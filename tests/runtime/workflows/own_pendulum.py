from __future__ import annotations

from typing import Any

import numpy as np

import ebrl
from ebrl.backends.protocols import SimulatorSpec, Space


@ebrl.register_simulator("own")
class Own:
    """A point that is pushed along a line."""

    spec = SimulatorSpec(observation={"place": Space((1,))}, action=Space((1,), low=-1.0, high=1.0))

    def __init__(self, target: str, *, goal: float = 0.5) -> None:
        self.goal, self.steps, self.place = goal, 0, 0.0

    def reset(self, seed: int) -> ebrl.Observation:
        self.steps, self.place = 0, float(np.random.default_rng(seed).uniform(-1, 1))
        return self.look()

    def step(self, action: Any) -> ebrl.Step:
        self.steps += 1
        self.place += 0.1 * float(np.clip(action[0], -1, 1))
        return ebrl.Step(self.look(), -abs(self.place - self.goal), False, self.steps >= 20)

    def close(self) -> None: ...

    def look(self) -> ebrl.Observation:
        return ebrl.Observation(place=np.array([self.place], np.float32))
