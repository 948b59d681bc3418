"""The simulator that is being checked, and ways to play it. Standard library and numpy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ebrl.backends.conformance.surroundings import Surroundings
from ebrl.backends.protocols import Simulator, Space
from ebrl.graph.items import Array, Observation, Step
from ebrl.runtime.contract import kind

SEED, OTHER_SEED = 5, 6
SHORT = 8
"""Steps of a short look."""


class Violation(Exception):
    """The contract is broken; one sentence says how."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class NotApplicable(Exception):
    """The check says nothing about this simulator; the message says why."""


class Subject:
    """Makes simulators with `make`. One, `simulator`, serves most checks; `close_all` in the end."""

    def __init__(self, make: Callable[[], Simulator], most_steps: int) -> None:
        self._make = make
        self.most_steps = most_steps
        self.surroundings = Surroundings()
        self._made: list[Simulator] = []

    @property
    def simulator(self) -> Simulator:
        return self._made[0] if self._made else self.another()

    def another(self) -> Simulator:
        with self.surroundings.watched():
            simulator = self._make()
        if simulator is None:
            raise Violation("the factory returned None", "return the simulator that it makes")
        self._made.append(simulator)
        return simulator

    def close(self, simulator: Simulator) -> None:
        self._made.remove(simulator)
        simulator.close()

    def close_all(self) -> None:
        """Close what is left, and put the process back into the state in which it was found."""
        try:
            while self._made:
                with contextlib.suppress(Exception):  # a rule of its own says so
                    self.close(self._made[-1])
        finally:
            self.surroundings.restore()


def play(simulator: Simulator, seed: int, actions: Iterable[Array]) -> tuple[Observation, list[Step]]:
    """Reset with `seed` and execute `actions` until the episode is over."""
    first, steps = simulator.reset(seed), []
    for action in actions:
        step = simulator.step(action)
        if not isinstance(step, Step):
            raise Violation(
                f"step() returned {kind(step)}; expected ebrl.Step",
                "return Step(observation, reward, terminated, truncated, success)",
            )
        steps.append(step)
        if step.terminated or step.truncated:
            break
    return first, steps


def actions(space: Space, count: int) -> list[Array]:
    """`count` actions within the range of `space`, always the same ones."""
    rng = np.random.default_rng(0)
    low, high = bounds(space)
    whole = np.issubdtype(np.dtype(space.dtype), np.integer)

    def draw() -> Array:
        drawn = rng.integers(low, high, space.shape, endpoint=True) if whole else rng.uniform(low, high, space.shape)
        return np.asarray(drawn, space.dtype)

    return [draw() for _ in range(count)]


def bounds(space: Space) -> tuple[Array, Array]:
    """Where to draw actions from: the declared range, one wide where a side is open, -1 to 1 where both are."""
    low = np.broadcast_to(np.asarray(-np.inf if space.low is None else space.low), space.shape)
    high = np.broadcast_to(np.asarray(np.inf if space.high is None else space.high), space.shape)
    return (
        np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 1, -1)),
        np.where(np.isfinite(high), high, np.where(np.isfinite(low), low + 1, 1)),
    )


def difference(one: Any, other: Any) -> str:
    """Where two observations differ, as words; empty where they do not."""
    if list(one) != list(other):
        return f"the keys are {', '.join(one)} and {', '.join(other)}"
    for key in one:
        if not np.array_equal(np.asarray(one[key]), np.asarray(other[key])):
            return f"observation {key!r} differs"
    return ""


def difference_of_episodes(one: tuple[Observation, list[Step]], other: tuple[Observation, list[Step]]) -> str:
    found = difference(one[0], other[0])
    if found:
        return f"{found} after reset()"
    if len(one[1]) != len(other[1]):
        return f"one lasts {len(one[1])} steps and the other {len(other[1])}"
    for number, step in enumerate(one[1]):
        twin = other[1][number]
        found = difference(step.observation, twin.observation)
        if not found and tuple(step)[1:] != tuple(twin)[1:]:
            found = f"(reward, terminated, truncated, success) is {tuple(step)[1:]} and {tuple(twin)[1:]}"
        if found:
            return f"{found} after step {number + 1}"
    return ""
