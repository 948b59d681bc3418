"""RoboCasa's kitchen tasks as Simulators. Runs in environment processes: standard library, numpy, RoboCasa."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.backends.simulators import robocasa_scene
from ebrl.backends.simulators.mujoco_cameras import MujocoCameras
from ebrl.backends.simulators.robosuite_observations import RobosuiteObservations, silence
from ebrl.backends.simulators.robosuite_seeding import reseed
from ebrl.errors import SimulatorNotFound, UsageError, did_you_mean
from ebrl.graph.items import Array, Observation, Step

INSTRUCTION = "instruction"
"""Observation on request: the task in words, which may differ from episode to episode (left or right drawer)."""

_SCENES = ("stock", "primitives")
_STANDARD_HORIZON = 500


class RobocasaSimulator:
    """``robocasa:OpenDrawer``: one of RoboCasa's kitchen tasks, in a new scene with every episode.

    RoboCasa itself never ends an episode. Here one terminates with success and is truncated at the horizon. The
    reward is RoboCasa's: 1 in the step of success, else 0.

    scene: ``stock`` draws from RoboCasa's kitchens, whose assets (10 GB) must have been downloaded; ``primitives`` is
        one kitchen of boxes without objects, in which four tasks work (`robocasa_scene.TASKS`).
    horizon: steps after which an episode is truncated; None takes the one that RoboCasa lists for the task, else 500.
    robot: a robot with a mobile base, such as PandaOmron (12 actions: arm, gripper, base, torso, mode).
    control_freq: actions per simulated second.
    timestep: physics step in seconds.
    observations: keys to return, in this order. None returns the robot's states, and of every fixture that the task
        names (such as ``drawer``) ``drawer_pos``, ``drawer_to_robot0_eef_pos`` and ``drawer_openness`` (0 shut, 1
        open as RoboCasa counts it; a drawer goes on to 1.8). States of objects, ``instruction`` and ``progress``
        on request.
    cameras: names of cameras (robot0_agentview_left, robot0_agentview_right, robot0_eye_in_hand ...), each an
        observation of its own, uint8 [height, width, 3], upright.
    image_size: height and width of their images, in pixels.
    fast_images: as in `MujocoCameras`.
    options: further arguments of the task, for example ``layout_ids``, ``style_ids`` or ``obj_instance_split``.

    Raises SimulatorNotFound for an unknown task and for missing assets (with the command that downloads them),
    UsageError for an unknown option, observation or camera, and for images where this machine cannot draw.
    """

    fork_safe = True
    """As in `RobosuiteSimulator`."""

    observe = True
    """As in `RobosuiteSimulator`."""

    @staticmethod
    def warm() -> None:
        """Import what every RoboCasa environment needs, without making one."""
        _tasks()

    def __init__(
        self,
        task: str,
        *,
        scene: str = "stock",
        horizon: int | None = None,
        robot: str = "PandaOmron",
        control_freq: float = 20.0,
        timestep: float = 0.002,
        observations: str | Sequence[str] | None = None,
        cameras: str | Sequence[str] = (),
        image_size: Sequence[int] = (128, 128),
        fast_images: bool = False,
        **options: Any,
    ) -> None:
        tasks = _tasks()
        if task not in tasks:
            raise SimulatorNotFound(f"no RoboCasa task {task!r}", hint=did_you_mean(task, tasks))
        self._primitives = _is_primitive(task, scene)
        self._task, self._steps = task, 0
        self._horizon = _horizon(task) if horizon is None else int(horizon)
        self._timestep = float(timestep)
        # Group 0 holds the collision meshes.
        self._cameras = MujocoCameras(cameras, image_size, fast=fast_images, hidden=(0,))
        self.fork_safe = not self._cameras.names
        arguments = {"robots": robot, "control_freq": control_freq, **options}
        self._environment = _make(task, tasks[task], arguments, self._primitives)
        self._texts = {INSTRUCTION: ""}
        native = self._begin(0)
        if observations is None:
            own = [key for key in native if key.startswith("robot0_") and not key.endswith("-state")]
            observations = own + list(self._fixtures(native))
        self._shown = RobosuiteObservations(
            f"RoboCasa's {task}",
            self._environment,
            native,
            horizon=self._horizon,
            wanted=observations,
            cameras=self._cameras,
            texts=self._texts,
        )
        low, high = (bound.astype(np.float32) for bound in self._environment.action_spec)
        self._low, self._high = low, high
        self.spec = SimulatorSpec(
            observation=self._shown.spaces,
            action=Space(shape=low.shape, low=low, high=high),
            control_hz=float(control_freq),
            max_episode_steps=self._horizon,
            instruction=self._texts[INSTRUCTION],
            extra={"robot": robot, "scene": scene, "timestep": self._timestep, "units": self._shown.units},
        )

    def reset(self, seed: int) -> Observation:
        return self._shown(self._begin(seed), images=True)

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the controllers' input range."""
        native, reward, _, _ = self._environment.step(np.clip(action, self._low, self._high))
        self._steps += 1
        success = bool(self._environment._check_success())
        truncated = self._steps >= self._horizon and not success
        observation = self._shown(self._with_fixtures(native), images=self.observe or success or truncated)
        return Step(observation, float(reward), success, truncated, success)

    def render(self) -> Array:
        """The first camera, else the scene beside the robot: uint8 [height, width, 3].

        Raises UsageError where this machine cannot draw.
        """
        self.fork_safe = False
        return self._shown.view("robot0_agentview_left")

    def close(self) -> None:
        self._cameras.close()
        self._environment.close()

    def _begin(self, seed: int) -> dict[str, Any]:
        import robosuite.macros

        # One setting for the whole process, read again at every reset: another simulator may have changed it.
        robosuite.macros.SIMULATION_TIMESTEP = self._timestep
        if self._primitives:
            self._environment.layout_and_style_ids = [(robocasa_scene.primitives(), {})]
        reseed(self._environment, seed)
        np.random.seed(int(seed))  # RoboCasa moves cameras, where told so, with numpy's global generator
        with silence():
            native = self._environment.reset()
        self._steps = 0
        self._texts[INSTRUCTION] = str(self._environment.get_ep_meta()["lang"])
        return self._with_fixtures(native)

    def _with_fixtures(self, native: Mapping[str, Any]) -> dict[str, Any]:
        return {**native, **self._fixtures(native)}

    def _fixtures(self, native: Mapping[str, Any]) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name, reference in self._environment.fixture_refs.items():
            fixture = reference[0] if isinstance(reference, tuple) else reference
            position = np.asarray(fixture.pos, np.float32)
            found[f"{name}_pos"] = position
            found[f"{name}_to_robot0_eef_pos"] = np.asarray(native["robot0_eef_pos"], np.float32) - position
            openness = self._openness(fixture)
            if openness:
                found[f"{name}_openness"] = np.array([np.mean(openness)], np.float32)
        return found

    def _openness(self, fixture: Any) -> list[float]:
        """Of its doors. Drawers and cabinets tell in two ways."""
        if hasattr(fixture, "get_door_state"):
            return list(fixture.get_door_state(env=self._environment).values())
        doors = getattr(fixture, "door_joint_names", [])
        return list(fixture.get_joint_state(self._environment, doors).values()) if doors else []


def _tasks() -> Mapping[str, Any]:
    with silence():
        try:
            import robocasa  # noqa: F401 (registers the tasks)
            from robocasa.environments.kitchen.kitchen import REGISTERED_KITCHEN_ENVS
        except ImportError as cause:
            raise SimulatorNotFound(
                "RoboCasa cannot be imported in this interpreter",
                detail=f"{type(cause).__name__}: {cause}",
                hint="ebrl env create robocasa",
            ) from cause
    tasks: Mapping[str, Any] = REGISTERED_KITCHEN_ENVS
    return tasks


def _is_primitive(task: str, scene: str) -> bool:
    if scene not in _SCENES:
        raise UsageError(f"no RoboCasa scene {scene!r}", hint=did_you_mean(scene, _SCENES))
    if scene == "primitives":
        if task not in robocasa_scene.TASKS:
            raise UsageError(
                f"RoboCasa's {task} cannot be done in the scene of primitives",
                hint=f"{', '.join(robocasa_scene.TASKS)} can; or take the stock scenes",
            )
        return True
    import robocasa.models

    missing = [
        name for name in ("textures", "objects") if not os.path.isdir(os.path.join(robocasa.models.assets_root, name))
    ]
    if missing:
        raise SimulatorNotFound(
            f"RoboCasa's {task} needs the stock assets, and {' and '.join(missing)} are not on this machine",
            hint=f"{sys.executable} -m robocasa.scripts.download_kitchen_assets (10 GB), or "
            f"robocasa:{robocasa_scene.TASKS[0]}?scene=primitives",
        )
    return False


def _horizon(task: str) -> int:
    from robocasa.utils.dataset_registry_utils import get_task_horizon

    try:
        return int(get_task_horizon(task))
    except (ValueError, KeyError):
        return _STANDARD_HORIZON


def _make(task: str, kind: Any, arguments: dict[str, Any], primitives: bool) -> Any:
    import robosuite

    accepted = _parameters(kind)
    for name in arguments:
        if name not in accepted:
            raise UsageError(f"RoboCasa's {task} has no option {name!r}", hint=did_you_mean(name, accepted))
    if primitives:
        arguments = {**arguments, "layout_ids": [robocasa_scene.primitives()], "style_ids": [{}]}
    with silence():
        environment = robosuite.make(
            task,
            **{
                "has_renderer": False,
                "has_offscreen_renderer": False,
                "use_camera_obs": False,
                "renderer": "mujoco",
                "ignore_done": True,
                "seed": 0,
                **arguments,
            },
        )
    if primitives:
        environment._get_obj_cfgs = list  # no object ships with the package
    return environment


def _parameters(kind: Any) -> set[str]:
    """Named arguments of the task's class and of those that it hands the rest to."""
    names: set[str] = set()
    for base in inspect.getmro(kind):
        if (init := vars(base).get("__init__")) is not None:
            names.update(inspect.signature(init).parameters)
        if base.__name__ == "Kitchen":
            break
    return names - {"self", "args", "kwargs"}
