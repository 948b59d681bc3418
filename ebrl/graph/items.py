"""The items that travel between stages. Standard library and numpy only, Python 3.8 on: environment processes
import this.

Shapes use B (batch), L (chunks of a trajectory), K (actions of a chunk) and A (action dimensions).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Generic, NamedTuple, Sequence, TypeVar, overload  # noqa: UP035 (see below)

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = np.ndarray
T = TypeVar("T")


class Observation(Dict[str, Any]):  # noqa: UP006 (in Python 3.8 only typing's base classes take parameters)
    """What one environment shows at one moment: named arrays, and text such as an instruction."""


class Step(NamedTuple):
    """The outcome of one action in one environment."""

    observation: Observation
    reward: float
    terminated: bool
    """The task ended by itself: no value beyond this point."""
    truncated: bool
    """The episode was cut (time limit): the value of `observation` counts."""
    success: bool | None = None
    """Whether the task is solved at this step; None where the simulator does not say."""


@dataclass(frozen=True)
class ActionChunk:
    """The K actions that one generation call plans for one environment."""

    actions: Array
    """[K, *action shape], in the policy's own units; the environment clips them to its action range."""
    log_probs: Array | None = None
    """[K, A] float32, elementwise log-density under the weights of `version`."""
    version: int = 0
    """Version of the weights that generated the chunk."""

    def __iter__(self) -> Iterator[Array]:
        return iter(self.actions)

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Trajectory:
    """A run of L consecutive chunks of one environment within one episode."""

    environment: int
    episode: int
    """Counts the episodes of this environment from 0."""
    start: int
    """Index of the first chunk within its episode."""
    observations: Mapping[str, Array]
    """Each [L + 1, ...]: before every chunk, and after the last one (the true final observation,
    never that of the next episode)."""
    actions: Array
    """[L, K, *action shape]"""
    log_probs: Array
    """[L, K, A] float32, as generated."""
    rewards: Array
    """[L, K] float32, zero where a chunk was not executed to its end."""
    steps: Array
    """[L] int32, executed actions per chunk (1 to K)."""
    versions: Array
    """[L] int64, weights version that generated each chunk."""
    terminated: bool
    truncated: bool
    """With both flags False the episode goes on in a later trajectory."""
    success: bool | None = None
    """Outcome of the episode, known at its end."""

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class Weights:
    """The parameters of a policy as published by training."""

    version: int
    """0 for the initial weights, plus 1 with every training iteration."""
    arrays: Mapping[str, Array]
    checksum: str
    """BLAKE2 of names, shapes, types and bytes."""

    @staticmethod
    def of(version: int, arrays: Mapping[str, Array]) -> Weights:
        return Weights(version, dict(arrays), checksum(arrays))

    def verify(self) -> None:
        """Raise ValueError when the arrays are not those that were published."""
        if (found := checksum(self.arrays)) != self.checksum:
            raise ValueError(f"weights version {self.version} are damaged: checksum {found}, published {self.checksum}")


def checksum(arrays: Mapping[str, Array]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.shape}{array.dtype.str}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Episode:
    """One finished episode, as counted by the run."""

    environment: int
    episode: int
    steps: int
    """Executed environment steps."""
    reward: float
    """Undiscounted sum."""
    success: bool | None
    lost: bool = False
    """The environment died; the episode says nothing about the policy."""


@dataclass(frozen=True)
class Batch(Sequence[T], Generic[T]):
    """Items of one type as one stage call sees them.

    ``Batch(items)`` holds items; ``Batch.stacked(Observation, state=array)`` holds columns with a
    leading batch axis and makes items on demand. `column` gives the stacked array of either.
    """

    items: Sequence[T] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    item_type: type[Any] | None = None
    seeds: Array | None = None
    """[B] uint64, one per item: the source of all randomness that a stage spends on that item, so that
    results depend neither on the batch an item lands in nor on timing."""

    @staticmethod
    def stacked(item_type: type[T], *, seeds: Array | None = None, **columns: Any) -> Batch[T]:
        return Batch((), columns, item_type, seeds)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else len(self.items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Batch[T]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if not self.columns:
            return Batch(self.items[index]) if isinstance(index, slice) else self.items[index]
        rows = {name: column[index] for name, column in self.columns.items()}
        if isinstance(index, slice):
            return Batch((), rows, self.item_type, None if self.seeds is None else self.seeds[index])
        assert self.item_type is not None
        return self.item_type(**rows)

    def column(self, name: str) -> Any:
        """The field `name` of every item, stacked: [B, ...] (a list where it is text)."""
        if self.columns:
            return self.columns[name]
        values = [item[name] if isinstance(item, Mapping) else getattr(item, name) for item in self.items]
        return values if isinstance(values[0], str) else np.stack(values)
