"""Recording: what happens in the slots of one environment becomes trajectories."""

from __future__ import annotations

import numpy as np

from ebrl.graph.items import Array, Trajectory
from ebrl.runtime.slots import Slots


class TrajectoryRecorder:
    """Copies one environment's chunks out of its slot before they are overwritten.

    The arrays of a trajectory are allocated for the chunk-steps that its window still has and cut to
    the executed ones when it closes.
    """

    def __init__(self, slots: Slots, row: int, environment: int | None = None) -> None:
        self._row = row
        self._environment = row if environment is None else environment
        self._observations = slots.observations
        self._copied = {name: slots[name] for name in ("actions", "log_probs", "rewards")}
        self._version = slots["version"]
        self._count = -1
        self._capacity = 0

    @property
    def chunks(self) -> int:
        return max(self._count, 0)

    @property
    def recording(self) -> bool:
        return self._count >= 0

    def begin(self, *, episode: int, start: int, capacity: int) -> None:
        """Start a trajectory of at most `capacity` chunks with the observation in the slot."""
        self._episode, self._start, self._capacity, self._count = episode, start, capacity, 0
        self._seen = {
            key: np.empty((capacity + 1, *array.shape[1:]), array.dtype) for key, array in self._observations.items()
        }
        self._kept = {name: np.empty((capacity, *array.shape[1:]), array.dtype) for name, array in self._copied.items()}
        self._steps = np.empty(capacity, np.int32)
        self._versions = np.empty(capacity, np.int64)
        self._observe()

    def chunk(self, steps: int) -> None:
        """A chunk was executed for `steps` actions; the slot shows the observation after it."""
        at = self._count
        for name, array in self._copied.items():
            self._kept[name][at] = array[self._row]
        self._steps[at] = steps
        self._versions[at] = self._version[self._row]
        self._count += 1
        self._observe()

    def close(self, *, terminated: bool = False, truncated: bool = False, success: bool | None = None) -> Trajectory:
        """The trajectory so far."""
        length, self._count = self._count, -1
        return Trajectory(
            environment=self._environment,
            episode=self._episode,
            start=self._start,
            observations={key: _readable(_cut(array, length + 1)) for key, array in self._seen.items()},
            actions=_cut(self._kept["actions"], length),
            log_probs=_cut(self._kept["log_probs"], length),
            rewards=_cut(self._kept["rewards"], length),
            steps=_cut(self._steps, length),
            versions=_cut(self._versions, length),
            terminated=terminated,
            truncated=truncated,
            success=success,
        )

    def drop(self) -> None:
        """Forget the trajectory so far."""
        self._count = -1

    def _observe(self) -> None:
        for key, array in self._observations.items():
            self._seen[key][self._count] = array[self._row]


def _cut(array: Array, length: int) -> Array:
    # A view would carry the whole allocation along when the trajectory travels.
    return array if len(array) == length else array[:length].copy()


def _readable(array: Array) -> Array:
    """Text as text: slots keep it as bytes of one length."""
    return np.char.decode(array) if array.dtype.char == "S" else array
