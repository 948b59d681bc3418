"""A rollout with real environment processes and a policy that answers at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from ebrl.graph.items import Array, Episode, Trajectory
from ebrl.runtime.order import EnvironmentOrder
from ebrl.runtime.rollout import Rollout, RolloutSettings

TESTS = Path(__file__).parents[1]


def order(simulator: str, *, program: str = "simulate", log_folder: str | None = None, **options: Any) -> Any:
    """`simulator`: module and name in `tests/bad_envs`, such as ``raising.Raising``."""
    module, name = simulator.split(".")
    return EnvironmentOrder(
        name=f"bad:{name}",
        factory={"module": f"bad_envs.{module}", "name": name},
        target="Lyft",
        options=options,
        program={"module": "bad_envs.programs", "name": program},
        path=[str(TESTS)],
        log_folder=log_folder,
    )


@attrs.define(slots=False)
class Play:
    """Plays batch after batch. A context manager: it ends all processes.

    Actions depend on the seed that the rollout gives for them, and on nothing else.
    """

    order: EnvironmentOrder
    num_envs: int = 1
    num_steps: int | None = 4
    chunk: int = 1
    cores: tuple[int, ...] = (0, 1)
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    batches: dict[int, list[Trajectory]] = attrs.field(factory=dict)
    lost: list[dict[str, Any]] = attrs.field(factory=list)
    episodes: list[Episode] = attrs.field(factory=list)
    requests: list[tuple[int, ...]] = attrs.field(factory=list)
    answering: bool = True
    rollout: Rollout = attrs.field(init=False)

    def __enter__(self) -> Play:
        settings = RolloutSettings(
            order=self.order,
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            chunk=self.chunk,
            cores=self.cores,
            **self.settings,
        )
        self.rollout = Rollout(
            settings,
            make_actor=lambda rollout: self,
            on_batch=self.batches.__setitem__,
            on_lost=self.lost.append,
            on_episode=self.episodes.append,
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.rollout.close()

    def batch(self, count: int | None = None) -> list[Trajectory]:
        """Record one more batch, of one window per environment or of `count`."""
        number = len(self.batches)
        self.until(lambda: self.rollout.slots is not None)
        self.rollout.admit(number, self.num_envs if count is None else count, 0)
        self.until(lambda: number in self.batches)
        return self.batches[number]

    def until(self, done: Callable[[], Any], timeout_s: float = 20.0) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < deadline_s, "the rollout makes no progress"
            self.rollout.poll(0.5)

    def at_rest(self) -> None:
        """Until no environment has anything to do."""
        self.until(lambda: all(state.work in ("idle", "gone") for state in self.rollout._environments))

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        if not rows:
            return
        self.requests.append(tuple(rows))
        if self.answering:
            self.answer(rows)

    def answer(self, rows: Sequence[int]) -> None:
        slots = self.rollout.slots
        assert slots is not None
        for row in rows:
            slots["actions"][row] = self.actions(int(slots["seed"][row]))
            slots["log_probs"][row] = -slots["actions"][row]
        self.rollout.actions_arrived(rows)

    def actions(self, seed: int) -> Array:
        actions: Array = np.random.default_rng(seed).integers(-9, 10, (self.chunk, 1)).astype(np.float32)
        return actions


def shown_seed(row: Array) -> int:
    """The seed in a row of Counting's state."""
    return (int(row[0]) << 16) + int(row[1])


def same(some: Sequence[Trajectory], others: Sequence[Trajectory]) -> bool:
    """Whether two batches are equal to the bit."""
    return [_plain(trajectory) for trajectory in some] == [_plain(trajectory) for trajectory in others]


def _plain(trajectory: Trajectory) -> dict[str, Any]:
    fields = dict(vars(trajectory))
    arrays = dict(fields.pop("observations")) | {
        name: fields.pop(name) for name in list(fields) if _array(fields[name])
    }
    return fields | {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def _array(value: Any) -> bool:
    return isinstance(value, np.ndarray)
