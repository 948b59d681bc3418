from __future__ import annotations

from typing import Any

import numpy as np

from bad_envs.counting import Counting
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation


class Describing(Counting):
    """An image, numbers and an instruction; `instruction` per seed."""

    spec = SimulatorSpec(
        observation={"image": Space((4, 4, 3), "uint8"), "state": Space((4,)), "instruction": Space((), "str")},
        action=Space((1,)),
    )

    def __init__(self, target: str, *, instructions: list[str], **options: Any) -> None:
        super().__init__(target, **options)
        self.instructions = instructions

    def look(self) -> Observation:
        text = self.instructions[self.seed % len(self.instructions)]
        image = np.full((4, 4, 3), self.count, np.uint8)
        return Observation(super().look(), image=image, instruction=text, unasked_for=1)
