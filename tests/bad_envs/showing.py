"""A simulator that declares and does all that one can, without a fault."""

from __future__ import annotations

from typing import Any

import numpy as np

from bad_envs.counting import Counting
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation


def warm() -> None:
    """Nothing takes long to import."""


class Showing(Counting):
    spec = SimulatorSpec(
        observation={"state": Space((4,)), "task": Space((), "str")},
        action=Space((1,), low=-1.0, high=1.0),
        control_hz=20.0,
        max_episode_steps=50,
        instruction="stack",
    )

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **{"lengths": [50], **options})

    def step(self, action: Any) -> Any:
        return super().step(np.clip(action, -1.0, 1.0))

    def look(self) -> Observation:
        return Observation(super().look(), task="stack")

    def render(self) -> Any:
        return np.zeros((4, 6, 3), np.uint8)
