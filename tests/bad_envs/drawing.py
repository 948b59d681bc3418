from __future__ import annotations

from typing import Any

import numpy as np

from bad_envs.succeeding import Succeeding
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation


class Drawing(Succeeding):
    """Shows a bar that grows with the steps of the episode.

    how: ``well``, ``raise`` from the third step on, ``float`` numbers, or ``nothing``.
    dies: it does not survive step `at`.
    """

    spec = SimulatorSpec(observation={"state": Space((4,))}, action=Space((1,)), control_hz=10.0)

    def __init__(self, target: str, *, how: str = "well", dies: bool = False, **options: Any) -> None:
        super().__init__(target, **options)
        self.how, self.dies = how, dies

    def fault(self) -> None:
        if self.dies:
            raise RuntimeError("the lamp fell")

    def reset(self, seed: int) -> Observation:
        self.drawn = 0
        return super().reset(seed)

    def render(self) -> Any:
        self.drawn += 1
        assert self.drawn == self.count + 1, "one frame per reset and step"
        if self.how == "nothing":
            return None
        if self.how == "raise" and self.count == 3:
            raise RuntimeError("no light here")
        frame = np.zeros((32, 48, 3), np.uint8)
        frame[:, : 4 * self.count] = 255
        return frame.astype(np.float32) if self.how == "float" else frame
