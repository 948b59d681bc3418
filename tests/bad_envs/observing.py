from __future__ import annotations

import numpy as np

from bad_envs.counting import Counting
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation


class Observing(Counting):
    """Draws its observation only where `observe` says that somebody looks; shows how often it drew."""

    observe = True
    spec = SimulatorSpec(observation={"drawn": Space((1,))}, action=Space((1,)))

    def reset(self, seed: int) -> Observation:
        self.drawn = 0
        return super().reset(seed)

    def look(self) -> Observation:
        ends = self.count >= self.lengths[self.seed % len(self.lengths)]
        if not (self.observe or ends or self.count == 0):
            return Observation()
        self.drawn += 1
        return Observation(drawn=np.array([self.drawn], np.float32))
