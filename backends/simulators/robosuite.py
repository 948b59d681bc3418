"""robosuite's manipulation tasks as Simulators. Runs in environment processes: standard library, numpy, robosuite."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.errors import SimulatorNotFound, UsageError, did_you_mean
from ebrl.graph.items import Array, Observation, Step

PROGRESS = "progress"
"""Observation key that this adapter adds on request: the part of the horizon that has passed, [1] in 0..1."""


class RobosuiteSimulator:
    """``robosuite:Lift``: a task, a robot and state observations under robosuite's own names.

    robot: name of a robot, or several; a two-arm task gets two of a single one.
    controller: a part controller for the arms (``OSC_POSE``, ``OSC_POSITION``, ``JOINT_VELOCITY`` ...), a
        composite one (``BASIC`` ...), a path to a JSON file, or None for the robot's default.
    horizon: steps after which an episode is truncated; tasks do not terminate by themselves.
    reward_shaping: the dense reward, else the sparse one.
    hard_reset: rebuild the model for every episode (about 50 steps' worth of time). Without it, what
        robosuite samples while building, such as the size of Lift's cube, is the same in all episodes.
    control_freq: actions per simulated second.
    timestep: physics step in seconds; 0.005 is about twice as fast as the default, and less exact.
    observations: keys to return, in this order; None returns all states. ``progress`` may be among them.
    options: further arguments of the task, for example ``reward_scale`` or ``gripper_types``.

    Raises SimulatorNotFound for an unknown task or robot, UsageError for an unknown option or observation.
    """

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
        observations: Sequence[str] | None = None,
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
        self._horizon = int(horizon)
        self._environment = _make(suite, task, arguments)
        first = self._states(self._environment.reset())
        self._keys = _selection(task, observations, first)
        low, high = self._environment.action_spec
        self._low, self._high = low.astype(np.float32), high.astype(np.float32)
        self.spec = SimulatorSpec(
            observation={key: Space(shape=first[key].shape) for key in self._keys},
            action=Space(shape=low.shape, low=self._low, high=self._high),
            control_hz=float(control_freq),
            max_episode_steps=self._horizon,
            extra={"robots": tuple(robots), "timestep": self._timestep},
        )

    def reset(self, seed: int) -> Observation:
        # One setting for the whole process, read again at every reset: another simulator may have changed it.
        self._macros.SIMULATION_TIMESTEP = self._timestep
        _reseed(self._environment, seed)
        return self._selected(self._environment.reset())

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to the controller's input range."""
        native, reward, done, _ = self._environment.step(np.clip(action, self._low, self._high))
        success = bool(self._environment._check_success())
        return Step(self._selected(native), float(reward), False, bool(done), success)

    def close(self) -> None:
        self._environment.close()

    def _selected(self, native: dict[str, Any]) -> Observation:
        states = self._states(native)
        return Observation({key: states[key] for key in self._keys})

    def _states(self, native: dict[str, Any]) -> dict[str, Array]:
        # robosuite also gives concatenations, named object-state and robot0_proprio-state.
        named = (key for key in native if not key.endswith("-state"))
        states: dict[str, Array] = {key: np.array(native[key], dtype=np.float32, ndmin=1) for key in named}
        states[PROGRESS] = np.array([self._environment.timestep / self._horizon], np.float32)
        return states


def _import_silently() -> Any:
    """robosuite logs and prints about optional parts at import and at every creation; failures still raise."""
    logging.getLogger("robosuite_logs").disabled = True
    with _silence():
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


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield


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
    with _silence():
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


def _selection(task: str, wanted: Sequence[str] | None, available: dict[str, Array]) -> tuple[str, ...]:
    if wanted is None:
        return tuple(key for key in available if key != PROGRESS)
    for key in wanted:
        if key not in available:
            raise UsageError(f"robosuite's {task} has no observation {key!r}", hint=did_you_mean(key, available))
    return tuple(wanted)


def _reseed(environment: Any, seed: int) -> None:
    """Put every generator of the environment into the state of a new one with this seed.

    robosuite hands one generator object to robots, samplers and arenas when it builds them, so setting
    `environment.rng` to another object would leave those behind. A placement sampler given by the user
    has its own.
    """
    state = np.random.default_rng(int(seed)).bit_generator.state
    for generator in _generators(environment):
        generator.bit_generator.state = state


def _generators(environment: Any) -> Iterable[np.random.Generator]:
    pending = [environment, getattr(environment, "placement_initializer", None)]
    found: dict[int, np.random.Generator] = {}
    while pending:
        owner = pending.pop()
        generator = getattr(owner, "rng", None)
        if isinstance(generator, np.random.Generator):
            found[id(generator)] = generator
        samplers = getattr(owner, "samplers", None)
        pending.extend(samplers.values() if isinstance(samplers, dict) else samplers or ())
    return found.values()
