"""Any Gymnasium environment as a Simulator. Runs in environment processes: standard library, numpy, Gymnasium."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec
from ebrl.backends.simulators.gymnasium_spaces import ObservationReader, action_space
from ebrl.backends.simulators.gymnasium_vector import OneRow
from ebrl.backends.simulators.mujoco_cameras import require
from ebrl.errors import SimulatorError, SimulatorNotFound, UsageError, did_you_mean
from ebrl.graph.items import Array, Observation, Step

SUCCESS_KEYS = ("is_success", "success")
_FINAL = ("final_obs", "final_observation")
_PLUGINS = ("gymnasium_robotics",)


def warm() -> None:
    """Import what all of its environments need."""
    with contextlib.suppress(ImportError):  # making one says what is missing
        import gymnasium  # noqa: F401


class GymnasiumSimulator:
    """``gymnasium:FetchReachDense-v4``; options go to `gymnasium.make`, such as ``max_episode_steps``.

    Observations are read as in `gymnasium_spaces.ObservationReader`, actions as in `action_space`. `Step.success`
    is the environment's ``is_success`` or ``success``, None where it reports neither. Environments that begin the
    next episode by themselves, in the same or in the next step, are taken at their last own observation; an id
    with a vector entry point only runs as one row. Control frequency: 1 / ``dt``, else ``render_fps``.

    Raises SimulatorNotFound for an unknown id, UsageError for an unknown option, SimulatorError for a space that no
    policy could read or drive.
    """

    def __init__(self, target: str, **options: Any) -> None:
        self._target = target
        self._environment = _make(target, options)
        try:
            self._read = ObservationReader(target, self._environment.observation_space)
            action, self._native = action_space(target, self._environment.action_space)
        except SimulatorError:
            self._environment.close()
            raise
        spec = self._environment.spec
        self.spec = SimulatorSpec(
            observation=self._read.spaces,
            action=action,
            control_hz=_control_hz(self._environment),
            max_episode_steps=None if spec is None else spec.max_episode_steps,
        )

    def reset(self, seed: int) -> Observation:
        observation, _ = self._environment.reset(seed=int(seed))
        return self._read(observation)

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the range of the action space."""
        observation, reward, terminated, truncated, info = self._environment.step(self._native(action))
        if terminated or truncated:
            observation, info = _last(observation, info)
        return Step(self._read(observation), float(reward), bool(terminated), bool(truncated), _success(info))

    def render(self) -> Array | None:
        """The scene as uint8 [height, width, 3]; None where the environment draws no images.

        Raises SimulatorError or UsageError where it would, but this machine lacks what it takes.
        """
        inner = self._environment.unwrapped
        if "rgb_array" not in (self._environment.metadata or {}).get("render_modes", ()):
            return None
        if getattr(inner, "mujoco_renderer", None) is not None:
            _without_display()
        if getattr(inner, "render_mode", None) is None:
            # Asked for only now: some environments open a renderer, which runs that never draw need not have.
            inner.render_mode = "rgb_array"
        try:
            frame = self._environment.render()
        except Exception as cause:
            raise SimulatorError(
                f"{self._target} cannot be drawn here",
                detail=f"{type(cause).__name__}: {cause}",
                hint="install what the message names; if the environment prepares drawing when it is made, add "
                "?render_mode=rgb_array to its address",
            ) from cause
        return None if frame is None else np.array(frame, np.uint8)[..., :3]

    def close(self) -> None:
        self._environment.close()


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
        registered = gymnasium.registry.get(target)
        if registered is not None and registered.entry_point is None:
            return OneRow(gymnasium.make_vec(target, num_envs=1, **options))
        # The engine checks what comes out against the spec; Gymnasium's checker costs time and prints.
        return gymnasium.make(target, disable_env_checker=True, **options)
    except gymnasium.error.UnregisteredEnv as cause:
        raise SimulatorNotFound(
            f"no environment {target!r} in Gymnasium's registry", hint=did_you_mean(target, gymnasium.registry)
        ) from cause
    except TypeError as cause:
        if "keyword argument" not in str(cause):
            raise
        raise UsageError(
            f"{target!r} does not take the options {', '.join(map(repr, options))}",
            detail=str(cause),
            hint="options go to gymnasium.make, and from there to the environment",
        ) from cause
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as cause:
        raise SimulatorNotFound(f"{target!r} needs a package that is not installed", detail=str(cause)) from cause


def _register_plugins(gymnasium: Any) -> None:
    """Packages that register environments when told to; imported only when an id is not known yet."""
    for name in _PLUGINS:
        # Notices of the package to its users go to standard error, at import.
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            gymnasium.register_envs(importlib.import_module(name))


def _without_display() -> None:
    """Let mujoco draw through what this machine has; left alone it waits for a screen first."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("MUJOCO_GL")):
        os.environ["MUJOCO_GL"] = require()


def _control_hz(environment: Any) -> float | None:
    dt = getattr(environment.unwrapped, "dt", None)
    if isinstance(dt, (float, int)) and dt > 0:
        return 1.0 / float(dt)
    fps = (environment.metadata or {}).get("render_fps")
    return float(fps) if fps else None


def _last(observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The end of this episode, where `observation` is the start of the next."""
    for key in _FINAL:
        if info.get(key) is not None:
            return info[key], info.get("final_info") or info
    return observation, info


def _success(info: dict[str, Any]) -> bool | None:
    for key in SUCCESS_KEYS:
        if key in info:
            return bool(info[key])
    return None
