"""The simulator without a fault that the others are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation, Step


class Counting:
    """Shows its seed, the steps of the episode and the sum of all actions; the reward is the step's number.

    lengths: an episode ends truncated after lengths[seed % len(lengths)] steps.
    """

    spec = SimulatorSpec(observation={"state": Space((4,))}, action=Space((1,)))

    def __init__(self, target: str, *, lengths: Sequence[int] = (1000,)) -> None:
        self.lengths = lengths

    def reset(self, seed: int) -> Observation:
        self.seed, self.count, self.total = seed, 0, 0.0
        return self.look()

    def step(self, action: Any) -> Step:
        self.count += 1
        self.total += float(action[0])
        over = self.count >= self.lengths[self.seed % len(self.lengths)]
        return Step(self.look(), float(self.count), False, over)

    def close(self) -> None: ...

    def look(self) -> Observation:
        seed = divmod(self.seed, 1 << 16)  # both parts are exact in float32
        return Observation(state=np.array([*seed, self.count, self.total], np.float32))


class Faulty(Counting):
    """Counting with `fault` before a step of its own choice.

    seeds: only in the episodes with these seeds; None: in all.
    """

    def __init__(self, target: str, *, at: int = 7, seeds: Sequence[int] | None = None, **options: Any) -> None:
        super().__init__(target, **options)
        self.at, self.seeds = at, seeds

    def step(self, action: Any) -> Step:
        if self.count + 1 == self.at and self.chosen():
            self.fault()
        return super().step(action)

    def chosen(self) -> bool:
        return self.seeds is None or self.seed in self.seeds

    def fault(self) -> None: ...
