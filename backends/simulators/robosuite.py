"""robosuite's manipulation tasks as Simulators. Runs in environment processes: standard library, numpy, robosuite."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.backends.simulators.mujoco_cameras import MujocoCameras
from ebrl.backends.simulators.robosuite_fast import accelerate
from ebrl.backends.simulators.robosuite_observations import RobosuiteObservations, silence
from ebrl.backends.simulators.robosuite_seeding import reseed
from ebrl.errors import SimulatorNotFound, UsageError, did_you_mean
from ebrl.graph.items import Array, Observation, Step


class RobosuiteSimulator:
    """``robosuite:Lift``: a task, a robot, states under robosuite's own names, and images on request.

    robot: name of a robot, or several; a two-arm task gets two of a single one.
    controller: a part controller for the arms (``OSC_POSE``, ``OSC_POSITION``, ``JOINT_VELOCITY`` ...), a
        composite one (``BASIC`` ...), a path to a JSON file, or None for the robot's default.
    horizon: steps after which an episode is truncated; tasks do not terminate by themselves.
    reward_shaping: the dense reward, else the sparse one.
    hard_reset: rebuild the model for every episode (about 50 steps' worth of time). Without it, what
        robosuite samples while building, such as the size of Lift's cube, is the same in all episodes.
    control_freq: actions per simulated second.
    timestep: physics step in seconds; 0.005 is about twice as fast as the default, and less exact.
    fast_control: compiled controllers where the trajectories stay those of robosuite (see `robosuite_fast`), three
        times as fast; ``spec.extra["control"]`` says which ones run.
    observations: keys to return, in this order; None returns all states. ``progress`` may be among them.
    cameras: names of cameras, each an observation of its own, uint8 [height, width, 3], upright.
    image_size: height and width of their images, in pixels.
    fast_images: as in `MujocoCameras`.
    options: further arguments of the task, for example ``reward_scale`` or ``gripper_types``.

    Raises SimulatorNotFound for an unknown task or robot, UsageError for an unknown option, observation or
    camera, and for images where this machine cannot draw.
    """

    fork_safe = True
    """Whether the process may fork with a simulator in it: not once it draws, or is about to (its copy would hang)."""

    observe = True
    """While False, `step` leaves out the images, unless the episode ends: for steps whose observation nobody reads."""

    @staticmethod
    def warm() -> None:
        """Import what every environment needs, without making one."""
        _import_silently()

    def __init__(
        self,
        task: str,
        *,
        robot: str | Sequence[str] = "Panda",
        controller: str | None = None,
        horizon: int = 500,
        reward_shaping: bool = True,
        hard_reset: bool = False,
        control_freq: float = 20.0,
        timestep: float = 0.002,
        fast_control: bool = True,
        observations: str | Sequence[str] | None = None,
        cameras: str | Sequence[str] = (),
        image_size: Sequence[int] = (128, 128),
        fast_images: bool = False,
        **options: Any,
    ) -> None:
        suite = _import_silently()
        self._macros, self._timestep = suite.macros, float(timestep)
        self._macros.SIMULATION_TIMESTEP = self._timestep
        robots = _robots(suite, task, robot)
        arguments = {
            "robots": robots,
            "controller_configs": _controller(suite, controller, robots),
            "horizon": int(horizon),
            "reward_shaping": reward_shaping,
            "hard_reset": hard_reset,
            "control_freq": control_freq,
            **options,
        }
        # Group 0 holds the collision meshes.
        self._cameras = MujocoCameras(cameras, image_size, fast=fast_images, hidden=(0,))
        self.fork_safe = not self._cameras.names
        self._environment = _make(suite, task, arguments)
        self._shown = RobosuiteObservations(
            f"robosuite's {task}",
            self._environment,
            self._environment.reset(),
            horizon=int(horizon),
            wanted=observations,
            cameras=self._cameras,
            texts={},
        )
        stock = accelerate(self._environment) if fast_control else "fast_control is off"
        low, high = self._environment.action_spec
        self._low, self._high = low.astype(np.float32), high.astype(np.float32)
        self.spec = SimulatorSpec(
            observation=self._shown.spaces,
            action=Space(shape=low.shape, low=self._low, high=self._high),
            control_hz=float(control_freq),
            max_episode_steps=int(horizon),
            extra={
                "robots": tuple(robots),
                "timestep": self._timestep,
                "control": "compiled" if stock is None else f"stock: {stock}",
                "units": self._shown.units,
            },
        )

    def reset(self, seed: int) -> Observation:
        # One setting for the whole process, read again at every reset: another simulator may have changed it.
        self._macros.SIMULATION_TIMESTEP = self._timestep
        reseed(self._environment, seed)
        return self._shown(self._environment.reset(), images=True)

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the controller's input range."""
        native, reward, done, _ = self._environment.step(np.clip(action, self._low, self._high))
        success = bool(self._environment._check_success())
        return Step(self._shown(native, images=self.observe or done), float(reward), False, bool(done), success)

    def render(self) -> Array:
        """The first camera, else the scene from the front: uint8 [height, width, 3].

        Raises UsageError where this machine cannot draw.
        """
        self.fork_safe = False
        return self._shown.view("frontview")

    def close(self) -> None:
        self._cameras.close()
        self._environment.close()


def _import_silently() -> Any:
    with silence():
        try:
            import robosuite
            import robosuite.macros
        except ImportError as cause:
            raise SimulatorNotFound(
                "robosuite cannot be imported in this interpreter",
                detail=f"{type(cause).__name__}: {cause}",
                hint="pip install --no-deps robosuite==1.5.2 && pip install 'ebrl[robosuite]'",
            ) from cause
    return robosuite


def _robots(suite: Any, task: str, robot: str | Sequence[str]) -> list[str]:
    if task not in suite.ALL_ENVIRONMENTS:
        raise SimulatorNotFound(f"no robosuite task {task!r}", hint=did_you_mean(task, suite.ALL_ENVIRONMENTS))
    names = [robot] if isinstance(robot, str) else list(robot)
    for name in names:
        if name not in suite.ALL_ROBOTS:
            raise SimulatorNotFound(f"no robosuite robot {name!r}", hint=did_you_mean(name, suite.ALL_ROBOTS))
    if task.startswith("TwoArm") and len(names) == 1:
        from robosuite.utils.robot_utils import check_bimanual

        return names if check_bimanual(names[0]) else names * 2
    return names


def _controller(suite: Any, name: str | None, robots: list[str]) -> list[Any]:
    """One configuration per robot; a part controller replaces that of every arm."""
    from robosuite.controllers.composite.composite_controller_factory import refactor_composite_controller_config
    from robosuite.models.robots.robot_model import REGISTERED_ROBOTS

    if name is None:
        return [None] * len(robots)
    if name in suite.ALL_PART_CONTROLLERS:
        part = suite.load_part_controller_config(default_controller=name)
        return [refactor_composite_controller_config(part, robot, REGISTERED_ROBOTS[robot].arms) for robot in robots]
    if name in suite.ALL_COMPOSITE_CONTROLLERS or name.endswith(".json"):
        return [suite.load_composite_controller_config(controller=name, robot=robot) for robot in robots]
    known = [*suite.ALL_PART_CONTROLLERS, *suite.ALL_COMPOSITE_CONTROLLERS]
    raise UsageError(f"no robosuite controller {name!r}", hint=did_you_mean(name, known))


def _make(suite: Any, task: str, arguments: dict[str, Any]) -> Any:
    from robosuite.environments.base import REGISTERED_ENVS

    accepted = set(inspect.signature(REGISTERED_ENVS[task].__init__).parameters) - {"self"}
    for name in arguments:
        if name not in accepted:
            raise UsageError(f"robosuite's {task} has no option {name!r}", hint=did_you_mean(name, accepted))
    with silence():
        # A fixed seed: what is sampled while building must not differ from process to process.
        return suite.make(
            task,
            **{
                "has_renderer": False,
                "has_offscreen_renderer": False,
                "use_camera_obs": False,
                "renderer": "mujoco",
                "seed": 0,
                **arguments,
            },
        )
