"""A simulator whose steps cost next to nothing. Standard library, numpy and the light modules of ebrl only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation, Step


class StubSimulator:
    """Shows 16 zeros; an episode lasts 1,000 steps."""

    fork_safe = True
    spec = SimulatorSpec(observation={"state": Space((16,))}, action=Space((4,)))

    def __init__(self, target: str) -> None:
        self._shown = Observation(state=np.zeros(16, np.float32))
        self._steps = 0

    def reset(self, seed: int) -> Observation:
        self._steps = 0
        return self._shown

    def step(self, action: Any) -> Step:
        self._steps += 1
        return Step(self._shown, 0.0, False, self._steps >= 1000)

    def close(self) -> None: ...
