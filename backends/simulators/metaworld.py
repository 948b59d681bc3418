"""Meta-World's tasks as Simulators. Runs in environment processes: standard library, numpy, Meta-World."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.backends.simulators.mujoco_cameras import MujocoCameras
from ebrl.errors import SimulatorNotFound, UsageError, did_you_mean
from ebrl.graph.items import Array, Observation, Step

STATE = "state"


class MetaworldSimulator:
    """``metaworld:reach-v3``: one task, with a new place of object and goal in every episode.

    The observation ``state`` [39] holds hand, gripper opening and object poses (18), the same of the step before
    (18), and the goal (3). The reward is Meta-World's, 0 to 10 per step. An episode goes on after success, as in
    Meta-World, and is truncated at the horizon.

    horizon: steps after which an episode is truncated, at most 500 (Meta-World's own).
    hide_goal: the goal reads zero, as in Meta-World's meta-learning benchmarks.
    cameras: names of cameras (corner, corner2, corner3, topview, behindGripper, gripperPOV), each an observation
        of its own, uint8 [height, width, 3], upright.
    image_size: height and width of their images, in pixels.
    fast_images: as in `MujocoCameras`.

    Raises SimulatorNotFound for an unknown task, UsageError for an unknown camera or horizon, and for images where
    this machine cannot draw.
    """

    fork_safe = True
    """As in `RobosuiteSimulator`."""

    observe = True
    """As in `RobosuiteSimulator`."""

    @staticmethod
    def warm() -> None:
        """Import what every Meta-World environment needs, without making one."""
        _tasks()

    def __init__(
        self,
        task: str,
        *,
        horizon: int = 500,
        hide_goal: bool = False,
        cameras: str | Sequence[str] = (),
        image_size: Sequence[int] = (128, 128),
        fast_images: bool = False,
    ) -> None:
        self._cameras = MujocoCameras(cameras, image_size, fast=fast_images)
        self.fork_safe = not self._cameras.names
        self._task, self._hide_goal = task, hide_goal
        self._environment = self._make()
        self._horizon, self._steps = _horizon(horizon, self._environment.max_path_length), 0
        self._cameras.check(f"metaworld:{task}", self._environment.model)
        state = self._environment.sawyer_observation_space
        action = self._environment.action_space
        self._low, self._high = action.low, action.high
        self.spec = SimulatorSpec(
            observation={
                STATE: Space(state.shape, low=state.low.astype(np.float32), high=state.high.astype(np.float32)),
                **self._cameras.spaces,
            },
            action=Space(action.shape, low=self._low, high=self._high),
            control_hz=1.0 / float(self._environment.dt),
            max_episode_steps=self._horizon,
            extra={"units": {STATE: "m; gripper opening 0..1; quaternions"}},
        )

    def reset(self, seed: int) -> Observation:
        _seed(self._environment, seed)
        self._steps = 0
        state, _ = self._environment.reset()
        return self._shown(state, images=True)

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the range of the action space."""
        state, reward, _, _, info = self._environment.step(np.clip(action, self._low, self._high))
        self._steps += 1
        truncated = self._steps >= self._horizon
        observation = self._shown(state, images=self.observe or truncated)
        return Step(observation, float(reward), False, truncated, bool(info["success"]))

    def render(self) -> Array:
        """The first camera, else the table from a corner: uint8 [height, width, 3].

        Raises UsageError where this machine cannot draw.
        """
        self.fork_safe = False
        return self._cameras.view(self._environment.model, self._environment.data, "corner2")

    def close(self) -> None:
        self._cameras.close()
        self._environment.close()

    def _shown(self, state: Any, *, images: bool) -> Observation:
        observation = Observation({STATE: np.array(state, np.float32)})
        if images and self._cameras.names:
            observation.update(self._cameras.images(self._environment.model, self._environment.data))
        return observation

    def _make(self) -> Any:
        tasks = _tasks()
        if self._task not in tasks:
            raise SimulatorNotFound(f"no Meta-World task {self._task!r}", hint=did_you_mean(self._task, tasks))
        environment = tasks[self._task]()
        environment._partially_observable = self._hide_goal
        vars(environment).pop("sawyer_observation_space", None)  # cached, and depends on the line above
        environment._set_task_called = True
        # Places of object and goal are drawn anew, from the generator that `_seed` sets.
        environment._freeze_rand_vec, environment.seeded_rand_vec = False, True
        return environment


def _tasks() -> Any:
    try:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    except ImportError as cause:
        raise SimulatorNotFound(
            "Meta-World cannot be imported in this interpreter",
            detail=f"{type(cause).__name__}: {cause}",
            hint="ebrl env create metaworld",
        ) from cause
    return ALL_V3_ENVIRONMENTS


def _seed(environment: Any, seed: int) -> None:
    """`reset(seed=...)` of Meta-World ignores its seed."""
    environment.np_random = np.random.default_rng(int(seed))


def _horizon(wanted: int, longest: int) -> int:
    if not 1 <= wanted <= longest:
        raise UsageError(f"horizon={wanted!r} does not fit Meta-World", hint=f"give 1 to {longest} steps")
    return int(wanted)
