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
        if environment.executed == self.settings.chunk:  # else the end of an episode cut it short
            self.latencies_s.append(time.monotonic() - self.arrived_s[index])
        super()._chunk_done(index, environment)


class Supply:
    """Keeps windows open, so that no environment ever waits for one: batches of one window for each, as a run admits
    them, and so many ahead that whoever is faster goes on. A single endless batch would be another workload: who
    begins a new window of it owes the most, and goes before everybody else until that window's end."""

    _AHEAD = 4

    def __init__(self) -> None:
        self._admitted = self._done = 0

    def batch_done(self, number: int, trajectories: Any) -> None:
        """The rollout's `on_batch`."""
        self._done += 1

    def poll(self, rollout: Rollout, timeout_s: float) -> None:
        """Admit what is missing, and let the rollout do what it has to."""
        while self._admitted < self._done + self._AHEAD:
            rollout.admit(self._admitted, rollout.settings.num_envs, 0)
            self._admitted += 1
        rollout.poll(timeout_s)


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
