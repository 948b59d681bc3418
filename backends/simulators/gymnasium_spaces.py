"""Gymnasium's spaces as ours, and values between them. Standard library, numpy, Gymnasium.

What policies read is float32, uint8 images and text, so observations become that; see `ObservationReader`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ebrl.backends.protocols import Space
from ebrl.errors import SimulatorError
from ebrl.graph.items import Array, Observation

STATE = "state"
"""Key of an observation that is neither Dict nor Tuple."""


class ObservationReader:
    """Turns native observations into `Observation`, with arrays of their own: many environments write into one
    array for ever.

    Dict and Tuple give one entry per leaf, its keys and positions joined by dots: ``robot.arm``, ``cameras.0``.
    Box becomes float32 (uint8 stays), MultiBinary float32, Text str; Discrete and MultiDiscrete become float32
    one-hot vectors, as a number of a category means nothing to a network.

    Raises SimulatorError for any other space.
    """

    def __init__(self, target: str, space: Any) -> None:
        self.spaces: dict[str, Space] = {}
        self._leaves: list[tuple[str, tuple[Any, ...], Callable[[Any], Any]]] = []
        self._add(target, space, ())

    def __call__(self, native: Any) -> Observation:
        observation = Observation()
        for key, path, read in self._leaves:
            value = native
            try:
                for part in path:
                    value = value[part]
            except (KeyError, IndexError, TypeError):
                continue  # whoever checks observations names what is missing
            observation[key] = read(value)
        return observation

    def _add(self, target: str, space: Any, path: tuple[Any, ...]) -> None:
        from gymnasium import spaces

        if isinstance(space, spaces.Dict):
            for name, inner in space.spaces.items():
                self._add(target, inner, (*path, name))
        elif isinstance(space, spaces.Tuple):
            for position, inner in enumerate(space.spaces):
                self._add(target, inner, (*path, position))
        else:
            key = ".".join(str(part) for part in path) or STATE
            self.spaces[key], read = _leaf(target, key, space)
            self._leaves.append((key, path, read))


def _leaf(target: str, key: str, space: Any) -> tuple[Space, Callable[[Any], Any]]:
    from gymnasium import spaces

    if isinstance(space, spaces.Text):
        return Space(shape=(), dtype="str"), str
    if isinstance(space, spaces.Box):
        dtype = "uint8" if space.dtype == np.uint8 else "float32"
        declared = Space(shape=space.shape, dtype=dtype, low=bound(space.low, dtype), high=bound(space.high, dtype))
        return declared, _image if dtype == "uint8" else _floats
    if isinstance(space, spaces.MultiBinary):
        return Space(shape=space.shape, low=0.0, high=1.0), _floats
    if isinstance(space, spaces.Discrete):
        return _one_hot(target, key, np.array([space.start]), np.array([space.n]))
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(target, key, _starts(space).ravel(), space.nvec.ravel())
    raise SimulatorError(
        f"{target}: observation {key!r} is a {type(space).__name__}, which no policy could read",
        hint="Box, Discrete, MultiDiscrete, MultiBinary, Text, and Dict and Tuple of them work; register an id of your "
        "own that turns it into one of them with gymnasium.wrappers.TransformObservation",
    )


def _floats(value: Any) -> Array:
    return np.array(value, dtype=np.float32)


def _image(value: Any) -> Array:
    # Other numbers must not wrap around silently: as floats they are found to be undeclared.
    array = np.asarray(value)
    return np.array(array, dtype=np.uint8 if array.dtype == np.uint8 else np.float32)


def _one_hot(target: str, key: str, starts: Array, sizes: Array) -> tuple[Space, Callable[[Any], Any]]:
    offsets = np.cumsum(sizes) - sizes
    length = int(sizes.sum())

    def read(value: Any) -> Array:
        indices = np.asarray(value).ravel() - starts
        if (indices < 0).any() or (indices >= sizes).any():
            raise SimulatorError(f"{target}: observation {key!r} is {value}, outside of its space")
        encoded = np.zeros(length, np.float32)
        encoded[offsets + indices] = 1.0
        return encoded

    return Space(shape=(length,), low=0.0, high=1.0), read


def action_space(target: str, space: Any) -> tuple[Space, Callable[[Array], Any]]:
    """The declared space of actions, and what makes a native action of one, clipped to its range.

    Discrete gives an int64 scalar, MultiDiscrete and MultiBinary int64 arrays, Box float32 (whatever its own
    type), a Dict or Tuple of Boxes one float32 vector of all in Gymnasium's order. Raises SimulatorError for others.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        start, last = int(space.start), int(space.start) + int(space.n) - 1
        return Space(shape=(), dtype="int64", low=start, high=last), lambda action: int(np.clip(action, start, last))
    if isinstance(space, spaces.MultiDiscrete):
        return _integers(space, _starts(space), _starts(space) + space.nvec - 1)
    if isinstance(space, spaces.MultiBinary):
        return _integers(space, np.zeros(space.shape, np.int64), np.ones(space.shape, np.int64))
    if isinstance(space, spaces.Box):
        return _box(space)
    if isinstance(space, (spaces.Dict, spaces.Tuple)) and _only_boxes(space):
        declared, make = _box(spaces.flatten_space(space))
        return declared, lambda action: spaces.unflatten(space, make(action))
    raise SimulatorError(
        f"{target}: the action space is {_composition(space)}, which no policy could drive",
        hint="Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of Boxes work; register an id of your own "
        "that turns it into one of them with gymnasium.wrappers.TransformAction",
    )


def _integers(space: Any, low: Array, high: Array) -> tuple[Space, Callable[[Array], Any]]:
    declared = Space(shape=space.shape, dtype="int64", low=bound(low, "int64"), high=bound(high, "int64"))
    return declared, lambda action: np.clip(action, low, high).astype(space.dtype).reshape(space.shape)


def _box(space: Any) -> tuple[Space, Callable[[Array], Any]]:
    whole = np.issubdtype(space.dtype, np.integer)

    def make(action: Array) -> Array:
        # In double precision: float32 bounds may lie outside of the native ones.
        exact = np.asarray(action, np.float64).reshape(space.shape)
        clipped: Array = np.clip(np.rint(exact) if whole else exact, space.low, space.high)
        return clipped.astype(space.dtype)

    return Space(shape=space.shape, low=bound(space.low, "float32"), high=bound(space.high, "float32")), make


def _only_boxes(space: Any) -> bool:
    from gymnasium import spaces

    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return all(_only_boxes(part) for part in inner)
    return isinstance(space, spaces.Box)


def _composition(space: Any) -> str:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return "a Dict of " + ", ".join(f"{key!r}: {type(inner).__name__}" for key, inner in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        return "a Tuple of " + ", ".join(type(inner).__name__ for inner in space.spaces)
    return f"a {type(space).__name__}"


def _starts(space: Any) -> Array:
    # Gymnasium before 1.0 has no start in some spaces.
    return np.asarray(getattr(space, "start", np.zeros_like(space.nvec)), np.int64)


def bound(values: Any, dtype: str) -> float | Array | None:
    """One number where all are equal, None where nothing is bounded."""
    array = np.asarray(values)
    if not array.size or (array == array.flat[0]).all():
        first = array.flat[0].item() if array.size else math.inf
        return first if math.isfinite(first) else None
    with np.errstate(over="ignore"):
        return array.astype(dtype)
