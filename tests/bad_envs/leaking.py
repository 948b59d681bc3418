from __future__ import annotations

from typing import Any

import numpy as np

from bad_envs.counting import Counting
from ebrl.graph.items import Observation


class Leaking(Counting):
    """`reset` leaks `mib` MiB of resident memory."""

    def __init__(self, target: str, *, mib: int = 5, **options: Any) -> None:
        super().__init__(target, **options)
        self.mib = mib
        self.leaked: list[Any] = []

    def reset(self, seed: int) -> Observation:
        self.leaked.append(np.ones(self.mib * 2**20, np.uint8))
        return super().reset(seed)
