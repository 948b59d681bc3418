"""LIBERO's tasks as Simulators. Runs in environment processes: standard library, numpy, LIBERO and robosuite."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.backends.simulators.libero_package import LiberoPackage
from ebrl.backends.simulators.mujoco_cameras import MujocoCameras
from ebrl.backends.simulators.robosuite_fast import accelerate
from ebrl.backends.simulators.robosuite_observations import RobosuiteObservations, silence
from ebrl.backends.simulators.robosuite_seeding import reseed
from ebrl.errors import SimulatorError, SimulatorNotFound
from ebrl.graph.items import Array, Observation, Step

INSTRUCTION = "instruction"
"""Observation that this adapter adds on request: the instruction of the task, as text."""

_ATTEMPTS = 20


class LiberoSimulator:
    """``libero:libero_object/3`` or ``libero:libero_object/<name of the task>``: one task of a suite.

    Suites: libero_spatial, libero_object, libero_goal, libero_10, libero_90. An episode starts from one of the
    task's initial states (50 in LIBERO), chosen by the seed; it terminates with success, which is also its only
    reward (1), and is truncated at the horizon.

    horizon: steps after which an episode is truncated.
    controller: robosuite's controller of the arm; actions are those of OSC_POSE by default, [7] in -1..1.
    control_freq: actions per simulated second.
    fast_control: as in `RobosuiteSimulator`.
    settle: steps without motion at the start of every episode, not counted: LIBERO's initial states hold objects
        above or in what they lie on, and policies were trained on what is seen after that.
    hard_reset: rebuild the model for every episode (about 50 steps' worth of time).
    observations: keys to return, in this order; None returns all states. ``progress`` (the part of the horizon
        that has passed) and ``instruction`` (text) may be among them.
    cameras: names of cameras (agentview, robot0_eye_in_hand, frontview ...), each an observation of its own,
        uint8 [height, width, 3], upright. LIBERO's own data sets hold their rows from below.
    image_size: height and width of their images, in pixels.
    fast_images: as in `MujocoCameras`.
    assets: as in `LiberoPackage`.

    Raises SimulatorNotFound for an unknown suite or task and where LIBERO or its meshes are missing, UsageError
    for an unknown observation or camera, and for images where this machine cannot draw.
    """

    fork_safe = True
    """As in `RobosuiteSimulator`."""

    observe = True
    """As in `RobosuiteSimulator`."""

    @staticmethod
    def warm() -> None:
        """Import what every LIBERO environment needs, without making one."""
        with contextlib.suppress(SimulatorNotFound):  # reported where an environment is made
            LiberoPackage()

    def __init__(
        self,
        target: str,
        *,
        horizon: int = 600,
        controller: str = "OSC_POSE",
        control_freq: float = 20.0,
        fast_control: bool = True,
        settle: int = 10,
        hard_reset: bool = False,
        observations: str | Sequence[str] | None = None,
        cameras: str | Sequence[str] = (),
        image_size: Sequence[int] = (128, 128),
        fast_images: bool = False,
        assets: str | None = None,
    ) -> None:
        # Group 0 holds the collision meshes.
        self._cameras = MujocoCameras(cameras, image_size, fast=fast_images, hidden=(0,))
        self.fork_safe = not self._cameras.names
        package = LiberoPackage(assets)
        suite, index, task = package.task(target)
        self._states = package.initial_states(task)
        # What is sampled while building must not differ from process to process.
        np.random.seed(0)
        self._control = package.make(
            task,
            controller=controller,
            horizon=int(horizon),
            control_freq=control_freq,
            hard_reset=hard_reset,
            use_camera_obs=False,
            has_renderer=False,
            has_offscreen_renderer=False,
        )
        self._environment = self._control.env
        self._check_states(target)
        low, high = self._environment.action_spec
        self._low, self._high = low.astype(np.float32), high.astype(np.float32)
        self._settle = int(settle)
        stock = accelerate(self._environment) if fast_control else "fast_control is off"
        self._shown = RobosuiteObservations(
            target,
            self._environment,
            self._restart(0),
            horizon=int(horizon),
            wanted=observations,
            cameras=self._cameras,
            texts={INSTRUCTION: task.language},
        )
        self.spec = SimulatorSpec(
            observation=self._shown.spaces,
            action=Space(shape=low.shape, low=self._low, high=self._high),
            control_hz=float(control_freq),
            max_episode_steps=int(horizon),
            instruction=task.language,
            extra={
                "suite": suite,
                "task": task.name,
                "index": index,
                "initial_states": len(self._states),
                "objects_of_interest": tuple(self._environment.obj_of_interest),
                "control": "compiled" if stock is None else f"stock: {stock}",
                "units": self._shown.units,
                **package.sources(),
            },
        )

    def reset(self, seed: int) -> Observation:
        return self._shown(self._restart(seed), images=True)

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the controller's input range."""
        native, reward, solved, _ = self._environment.step(np.clip(action, self._low, self._high))
        success = bool(solved)
        truncated = not success and self._environment.timestep >= self.spec.max_episode_steps
        observation = self._shown(native, images=self.observe or success or truncated)
        return Step(observation, float(reward), success, truncated, success)

    def render(self) -> Array:
        """The first camera, else the table from the front: uint8 [height, width, 3].

        Raises UsageError where this machine cannot draw.
        """
        self.fork_safe = False
        return self._shown.view("agentview")

    def close(self) -> None:
        self._cameras.close()
        self._environment.close()

    def _restart(self, seed: int) -> Any:
        """A new episode: fixtures are placed by chance, then all that moves by an initial state."""
        from robosuite.utils.errors import RandomizationError

        rng = np.random.default_rng(int(seed))
        state = self._states[rng.integers(len(self._states))]
        # LIBERO draws from numpy's global generator, robosuite from its own.
        np.random.seed(rng.integers(2**32))
        reseed(self._environment, int(rng.integers(2**32)))
        for attempt in range(_ATTEMPTS):
            try:
                with silence():
                    self._environment.reset()
                break
            except RandomizationError:
                if attempt == _ATTEMPTS - 1:
                    raise
        shown = self._control.set_init_state(state)
        still = np.zeros_like(self._low)
        still[-1] = self._low[-1]  # the gripper stays open
        for _ in range(self._settle):
            shown, *_ = self._environment.step(still)
        self._environment.timestep, self._environment.done = 0, False
        return shown

    def _check_states(self, target: str) -> None:
        model = self._environment.sim.model
        expected, given = 1 + model.nq + model.nv, self._states.shape[1]
        if given != expected:
            raise SimulatorError(
                f"{target}: its initial states have {given} numbers, its model takes {expected}",
                hint="LIBERO, robosuite and the meshes must fit together: ebrl env create libero",
            )
