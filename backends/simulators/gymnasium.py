"""Any Gymnasium environment as a Simulator. Runs in environment processes: standard library, numpy, Gymnasium."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.errors import SimulatorError, SimulatorNotFound, did_you_mean
from ebrl.graph.items import Array, Observation, Step

SUCCESS_KEYS = ("is_success", "success")
_PLUGINS = ("gymnasium_robotics",)
_SINGLE = "state"
"""Key of an observation that is no Dict."""


class GymnasiumSimulator:
    """``gymnasium:FetchReachDense-v4``; options go to `gymnasium.make`.

    Float observations become float32, uint8 images and text stay, a Dict keeps its keys (nested ones
    joined by a dot). `Step.success` is the environment's ``is_success`` or ``success``, None where it
    reports neither.

    Raises SimulatorNotFound for an unknown id, SimulatorError for a space that no policy could read.
    """

    def __init__(self, target: str, **options: Any) -> None:
        self._environment = _make(target, options)
        self._action_space = self._environment.action_space
        action = _action_space(target, self._action_space)
        self._discrete = not action.shape and np.issubdtype(np.dtype(action.dtype), np.integer)
        self._low, self._high = action.low, action.high
        spec = self._environment.spec
        self.spec = SimulatorSpec(
            observation=_observation_spaces(target, self._environment.observation_space),
            action=action,
            control_hz=_control_hz(self._environment),
            max_episode_steps=None if spec is None else spec.max_episode_steps,
        )

    def reset(self, seed: int) -> Observation:
        observation, _ = self._environment.reset(seed=int(seed))
        return _copied(observation)

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the range of the action space."""
        observation, reward, terminated, truncated, info = self._environment.step(self._native(action))
        return Step(_copied(observation), float(reward), bool(terminated), bool(truncated), _success(info))

    def close(self) -> None:
        self._environment.close()

    def _native(self, action: Array) -> Any:
        clipped = np.clip(action, self._low, self._high)
        if self._discrete:
            return int(clipped)
        return clipped.astype(self._action_space.dtype).reshape(self._action_space.shape)


def _make(target: str, options: dict[str, Any]) -> Any:
    try:
        import gymnasium
    except ImportError as cause:
        raise SimulatorNotFound(
            "Gymnasium is not installed in this interpreter", hint="pip install 'ebrl[gymnasium]'"
        ) from cause
    if ":" not in target and target not in gymnasium.registry:
        _register_plugins(gymnasium)
    try:
        # The engine checks what comes out against the spec; Gymnasium's checker costs time and prints.
        return gymnasium.make(target, disable_env_checker=True, **options)
    except gymnasium.error.UnregisteredEnv as cause:
        raise SimulatorNotFound(
            f"no environment {target!r} in Gymnasium's registry", hint=did_you_mean(target, gymnasium.registry)
        ) from cause
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as cause:
        raise SimulatorNotFound(f"{target!r} needs a package that is not installed", detail=str(cause)) from cause


def _register_plugins(gymnasium: Any) -> None:
    """Packages that register environments when told to; imported only when an id is not known yet."""
    for name in _PLUGINS:
        # Notices of the package to its users go to standard error, at import.
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            gymnasium.register_envs(importlib.import_module(name))


def _control_hz(environment: Any) -> float | None:
    dt = getattr(environment.unwrapped, "dt", None)
    return 1.0 / float(dt) if isinstance(dt, float | int) and dt > 0 else None


def _success(info: dict[str, Any]) -> bool | None:
    for key in SUCCESS_KEYS:
        if key in info:
            return bool(info[key])
    return None


def _copied(observation: Any) -> Observation:
    """Own arrays in the declared types: many environments write into one array for ever."""
    return Observation(_flat(observation, "") if isinstance(observation, dict) else {_SINGLE: _own(observation)})


def _flat(observation: dict[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in observation.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = _own(value)
    return flat


def _own(value: Any) -> Any:
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    return np.array(array, dtype=np.uint8 if array.dtype == np.uint8 else np.float32)


def _observation_spaces(target: str, space: Any, prefix: str = "") -> dict[str, Space]:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        found: dict[str, Space] = {}
        for key, inner in space.spaces.items():
            name = f"{prefix}{key}"
            if isinstance(inner, spaces.Dict):
                found |= _observation_spaces(target, inner, f"{name}.")
            else:
                found[name] = _observation_space(target, name, inner)
        return found
    return {_SINGLE: _observation_space(target, _SINGLE, space)}


def _observation_space(target: str, key: str, space: Any) -> Space:
    from gymnasium import spaces

    if isinstance(space, spaces.Text):
        return Space(shape=(), dtype="str")
    if isinstance(space, spaces.Box):
        dtype = "uint8" if space.dtype == np.uint8 else "float32"
        return Space(shape=space.shape, dtype=dtype, low=_bound(space.low, dtype), high=_bound(space.high, dtype))
    if isinstance(space, spaces.MultiBinary):
        return Space(shape=space.shape, low=0.0, high=1.0)
    raise SimulatorError(
        f"{target}: observation {key!r} is a {type(space).__name__}; Box, MultiBinary, Text and Dicts of them work",
        hint="wrap the environment with gymnasium.wrappers.FlattenObservation",
    )


def _action_space(target: str, space: Any) -> Space:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return Space(shape=(), dtype="int64", low=start, high=start + int(space.n) - 1)
    if isinstance(space, spaces.Box):
        return Space(shape=space.shape, low=_bound(space.low, "float32"), high=_bound(space.high, "float32"))
    raise SimulatorError(
        f"{target}: the action space is a {type(space).__name__}; Box and Discrete can be driven",
        hint="flatten it with a wrapper of your own around the environment",
    )


def _bound(values: Any, dtype: str) -> float | Array | None:
    """One number where all are equal, None where nothing is bounded."""
    array = np.asarray(values)
    if not array.size or (array == array.flat[0]).all():
        bound = float(array.flat[0]) if array.size else math.inf
        return bound if math.isfinite(bound) else None
    with np.errstate(over="ignore"):
        return array.astype(dtype)
