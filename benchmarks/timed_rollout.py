"""A rollout without Dask whose policy answers at once, and that notes how long every chunk took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.runtime.rollout import Rollout, RolloutSettings

_NOISE = 0.6  # of the actions: about that of a policy at the beginning of its training


class TimedRollout(Rollout):
    """Notes how long every chunk took, from the arrival of its actions to the end of its last step."""

    def __init__(self, settings: RolloutSettings, **callbacks: Any) -> None:
        self.arrived_s: dict[int, float] = {}
        self.latencies_s: list[float] = []
        super().__init__(settings, **callbacks)

    def actions_arrived(self, rows: Sequence[int]) -> None:
        self.arrived_s.update(dict.fromkeys(rows, time.monotonic()))
        super().actions_arrived(rows)

    def _chunk_done(self, index: int, environment: Any) -> None:
        self.latencies_s.append(time.monotonic() - self.arrived_s[index])
        super()._chunk_done(index, environment)


class Stub:
    """A policy that answers at once: random actions."""

    def __init__(self, rollout: Rollout, seed: int) -> None:
        self._rollout, self._random = rollout, np.random.default_rng(seed)

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        if not rows:
            return
        slots = self._rollout.slots
        assert slots is not None
        slots["actions"][list(rows)] = self._random.normal(0.0, _NOISE, (len(rows), *slots["actions"].shape[1:]))
        self._rollout.actions_arrived(rows)
