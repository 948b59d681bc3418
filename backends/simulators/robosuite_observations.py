"""What is shown of a robosuite environment (its own tasks, LIBERO, RoboCasa). Numpy and mujoco only."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import Space
from ebrl.backends.simulators.mujoco_cameras import MujocoCameras
from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.items import Array, Observation

PROGRESS = "progress"
"""Observation that the adapters add on request: the part of the horizon that has passed, [1] in 0..1."""

_KNOWN = (  # ending of a name, unit, lowest and highest value; the first that fits
    ("_joint_pos_cos", "1", -1.0, 1.0),
    ("_joint_pos_sin", "1", -1.0, 1.0),
    ("_joint_pos", "rad", None, None),
    ("_joint_vel", "rad/s", None, None),
    ("_joint_acc", "rad/s^2", None, None),
    ("_quat", "quaternion x, y, z, w", -1.0, 1.0),
    ("_quat_site", "quaternion x, y, z, w", -1.0, 1.0),
    ("_pos", "m", None, None),
    (PROGRESS, "1", 0.0, 1.0),
)


class RobosuiteObservations:
    """Observations of one environment under robosuite's own names, in a fixed order: chosen keys, then cameras.

    simulator: how messages name it.
    environment: robosuite's own, after a reset that gave `native`.
    wanted: keys to show, in this order; None shows all states. ``progress`` and those of `texts` on request.

    Raises UsageError for a key or a camera that does not exist.
    """

    def __init__(
        self,
        simulator: str,
        environment: Any,
        native: Mapping[str, Any],
        *,
        horizon: int,
        wanted: str | Sequence[str] | None,
        cameras: MujocoCameras,
        texts: Mapping[str, str],
    ) -> None:
        self._environment, self._horizon = environment, horizon
        self._cameras, self._texts = cameras, texts
        states = self._states(native)
        self._keys = _selection(simulator, wanted, states, texts)
        cameras.check(simulator, environment.sim.model._model)
        self.spaces: dict[str, Space] = {
            **{key: Space((), "str") if key in texts else _space(key, states[key]) for key in self._keys},
            **cameras.spaces,
        }
        self.units = {key: unit for key in self._keys if key not in texts and (unit := _known(key)[1])}

    def __call__(self, native: Mapping[str, Any], *, images: bool) -> Observation:
        """Own arrays; without `images` the keys of the cameras are left out."""
        shown = {**self._states(native), **self._texts}
        observation = Observation({key: shown[key] for key in self._keys})
        if images and self._cameras.names:
            sim = self._environment.sim
            observation.update(self._cameras.images(sim.model._model, sim.data._data))
        return observation

    def view(self, camera: str) -> Array:
        """As `MujocoCameras.view`."""
        sim = self._environment.sim
        return self._cameras.view(sim.model._model, sim.data._data, camera)

    def _states(self, native: Mapping[str, Any]) -> dict[str, Array]:
        # robosuite also gives concatenations, named object-state and robot0_proprio-state.
        named = (key for key in native if not key.endswith("-state"))
        states: dict[str, Array] = {key: np.array(native[key], dtype=np.float32, ndmin=1) for key in named}
        states[PROGRESS] = np.array([self._environment.timestep / self._horizon], np.float32)
        return states


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """These packages log and print about optional parts at import and creation; failures still raise."""
    logging.getLogger("robosuite_logs").disabled = True
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield


def _selection(
    simulator: str, wanted: str | Sequence[str] | None, states: Mapping[str, Array], texts: Mapping[str, str]
) -> tuple[str, ...]:
    if wanted is None:
        return tuple(key for key in states if key != PROGRESS)
    keys = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for key in keys:
        if key not in states and key not in texts:
            raise UsageError(f"{simulator} has no observation {key!r}", hint=did_you_mean(key, [*states, *texts]))
    return keys


def _space(key: str, value: Array) -> Space:
    _, _, low, high = _known(key)
    return Space(shape=value.shape, low=low, high=high)


def _known(key: str) -> tuple[str, str, float | None, float | None]:
    return next((row for row in _KNOWN if key.endswith(row[0])), ("", "", None, None))
