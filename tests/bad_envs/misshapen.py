"""Observations and rewards that are not what was declared."""

from __future__ import annotations

from typing import Any

import numpy as np

from bad_envs.counting import Counting, Faulty
from ebrl.graph.items import Observation, Step


class WrongType(Counting):
    def look(self) -> Observation:
        return Observation(state=super().look()["state"].astype(np.float64))


class WrongShape(Counting):
    def look(self) -> Observation:
        return Observation(state=np.zeros(14, np.float32))


class WrongKey(Counting):
    def look(self) -> Observation:
        return Observation(stat=np.zeros(4, np.float32))


class NoObservation(Counting):
    def look(self) -> Any:
        return np.zeros(4, np.float32)


class NaNObservation(Faulty):
    """Not a number from step `at` on."""

    def look(self) -> Observation:
        shown = super().look()
        if self.count >= self.at and self.chosen():
            shown["state"][2] = np.nan
        return shown


class NaNReward(Faulty):
    def step(self, action: Any) -> Step:
        step = super().step(action)
        return step._replace(reward=float("nan")) if self.count == self.at and self.chosen() else step


class NoReward(Faulty):
    def step(self, action: Any) -> Step:
        step = super().step(action)
        return step._replace(reward=None) if self.count == self.at and self.chosen() else step


class NoStep(Faulty):
    """`step` returns what Gymnasium would."""

    def step(self, action: Any) -> Any:
        step = super().step(action)
        return (*step[:4], {}) if self.count == self.at else step


class ReusedArray(Counting):
    """Every observation is the same array."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        self.shown = Observation(state=np.zeros(4, np.float32))

    def look(self) -> Observation:
        self.shown["state"][:] = super().look()["state"]
        return self.shown


class Late(Faulty):
    """What step `at` returns goes through `spoil` first."""

    def step(self, action: Any) -> Any:
        step = super().step(action)
        return self.spoil(step) if self.count == self.at and self.chosen() else step

    def spoil(self, step: Step) -> Any: ...


class LateType(Late):
    """float64 where float32 is declared."""

    def spoil(self, step: Step) -> Step:
        return step._replace(observation=Observation(state=step.observation["state"].astype(np.float64)))


class LateShape(Late):
    def spoil(self, step: Step) -> Step:
        return step._replace(observation=Observation(state=np.zeros(14, np.float32)))


class LateKey(Late):
    def spoil(self, step: Step) -> Step:
        return step._replace(observation=Observation())


class LateNothing(Late):
    """Forgets the observation."""

    def spoil(self, step: Step) -> Step:
        return step._replace(observation=None)  # type: ignore[arg-type]


class LateNoStep(Late):
    """Forgets to return."""

    def spoil(self, step: Step) -> None:
        return None


class LateHuge(Late):
    """More than float32 holds."""

    def spoil(self, step: Step) -> Step:
        return step._replace(reward=1e39)


class LateFlag(Late):
    def spoil(self, step: Step) -> Step:
        return step._replace(terminated="no")  # type: ignore[arg-type]


class LateSuccess(Late):
    """Of several goals each."""

    def spoil(self, step: Step) -> Step:
        return step._replace(success=np.array([True, False]))  # type: ignore[arg-type]


class LateWord(Late):
    def spoil(self, step: Step) -> Step:
        return step._replace(success="no")  # type: ignore[arg-type]
