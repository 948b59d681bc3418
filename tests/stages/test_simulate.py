from __future__ import annotations

from typing import Any

import numpy as np

from ebrl.graph.items import ActionChunk, Batch, Observation, Step, Weights
from ebrl.stages import generate, simulate


class Counting:
    def __init__(self) -> None:
        self.actions: list[float] = []

    def step(self, action: Any) -> Step:
        self.actions.append(float(action[0]))
        return Step(Observation(), 1.0, False, False)


def test_a_chunk_is_executed_action_by_action_and_no_further_than_asked() -> None:
    env = Counting()
    steps = simulate(env, ActionChunk(np.array([[1.0], [2.0], [3.0]])))
    assert env.actions == []
    next(steps)
    assert env.actions == [1.0]
    assert len(list(steps)) == 2
    assert env.actions == [1.0, 2.0, 3.0]


def test_generation_acts() -> None:
    class Echo:
        def act(self, observations: Any) -> Any:
            return observations

    observations: Batch[Observation] = Batch([Observation()])
    assert generate(Echo(), observations, Weights.of(0, {})) is observations
