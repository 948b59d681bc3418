"""A faster control loop for robosuite's environments, with the trajectories of the stock one.

A stock control step runs 25 physics steps, and before each of them robosuite's controllers in Python, which
take five times as long as the physics. Here the first of them runs the stock code, which also takes in the
action, and the rest a compiled controller on what cannot change within a control step. Observables are
asked only when they sample.

Torques differ from the stock ones by rounding. Trajectories agree to 1e-6 over hundreds of steps, until
contacts amplify rounding: there the stock loop departs as far from itself when disturbed by 1e-14.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebrl.graph.items import Array

_LEAST_JOINTS = 7
"""Arms with fewer pass singular poses, where the stock controller's cut of small singular values decides."""


def accelerate(environment: Any) -> str | None:
    """Replace the per-physics-step work of `environment`, a robosuite 1.5 environment that has been reset.

    Returns None, or in a few words why the environment keeps its stock controllers.
    """
    for name in ("_pre_action", "_update_observables"):
        environment.__dict__.pop(name, None)
    environment._update_observables = _Observables(environment)
    reason = _unsupported(environment)
    if reason is None:
        environment._pre_action = _Control(environment)
    return reason


def _unsupported(environment: Any) -> str | None:
    from robosuite.controllers.composite.composite_controller import CompositeController
    from robosuite.controllers.parts.arm.osc import OperationalSpaceController
    from robosuite.controllers.parts.gripper.simple_grip import SimpleGripController
    from robosuite.environments.robot_env import RobotEnv
    from robosuite.robots.fixed_base_robot import FixedBaseRobot

    if not environment.lite_physics:
        return "lite_physics is off"
    if type(environment)._pre_action is not RobotEnv._pre_action:
        return f"{type(environment).__name__} has a control loop of its own"
    for robot in environment.robots:
        if type(robot) is not FixedBaseRobot:
            return f"{robot.name} has no fixed base"
        if type(robot.composite_controller) is not CompositeController:
            return f"its controller is a {type(robot.composite_controller).__name__}"
        for name, part in robot.composite_controller.part_controllers.items():
            if name in robot.arms:
                if type(part) is not OperationalSpaceController:
                    return f"the controller of {name} is a {type(part).__name__}"
                if part.joint_dim < _LEAST_JOINTS:
                    return f"{robot.name} has fewer than {_LEAST_JOINTS} joints"
                if not part.lite_physics or part.interpolator_pos is not None or part.interpolator_ori is not None:
                    return f"the controller of {name} interpolates its goals"
                if not _is_fixed(environment.sim.model, f"{part.naming_prefix}{part.part_name}_center"):
                    return f"the base of {name} moves"
            elif type(part) is not SimpleGripController or part.interpolator is not None:
                return f"the controller of {name} is a {type(part).__name__}"
    return None


def _is_fixed(model: Any, site: str) -> bool:
    """Whether the body of `site` is welded to the world."""
    native = model._model
    return bool(native.body_weldid[native.site_bodyid[model.site_name2id(site)]] == 0)


class _Control:
    """Stands in for `_pre_action`: stock for the first physics step of a control step, compiled for the rest."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._stock = type(environment)._pre_action.__get__(environment)
        self._substeps = int(environment.control_timestep / environment.model_timestep)
        self._left = 0
        self._built = ()  # type: tuple[Any, ...]
        self._arms = []  # type: list[_Arm]

    def __call__(self, action: Array, policy_step: bool = False) -> None:
        if policy_step:
            self._follow()
            self._stock(action, policy_step)
            self._left = self._substeps - 1
            for arm in self._arms:
                arm.take_goal()
            return
        self._left -= 1
        for arm in self._arms:
            if not arm.act():
                self._stock(action, policy_step)
                return
            if self._left == 0:
                arm.show_state()

    def _follow(self) -> None:
        """A reset makes new controllers, and a hard one a new model."""
        sim, robots = self._environment.sim, self._environment.robots
        built = (sim.data._data, *(robot.composite_controller for robot in robots))
        if [*map(id, built)] != [*map(id, self._built)]:
            self._built = built
            self._arms = [_Arm(sim, robot, arm) for robot in robots for arm in robot.arms]


class _Arm:
    """One arm with an operational-space controller."""

    def __init__(self, sim: Any, robot: Any, arm: str) -> None:
        import mujoco

        from ebrl.backends.simulators.robosuite_osc import torques

        self._mujoco, self._torques = mujoco, torques
        self._model, self._data = sim.model._model, sim.data._data
        self._controller = controller = robot.composite_controller.part_controllers[arm]
        self._site = sim.model.site_name2id(controller.ref_name)
        self._mass = np.zeros((self._model.nv, self._model.nv))
        self._jacobian = np.zeros((6, self._model.nv))
        actuators = np.array(robot._ref_actuators_indexes_dict[arm], np.int64)
        limits = self._model.actuator_ctrlrange[actuators]
        data = self._data
        # Views of MuJoCo's own memory: they show each new state.
        self._state = (
            data.ctrl,
            limits[:, 0].copy(),
            limits[:, 1].copy(),
            actuators,
            np.array(controller.qvel_index, np.int64),
            np.array(controller.qpos_index, np.int64),
            data.qpos,
            data.qvel,
            data.qfrc_bias,
            self._mass,
            self._jacobian,
            data.site_xpos[self._site],
            data.site_xmat[self._site],
        )
        self._goal = ()  # type: tuple[Any, ...]

    def take_goal(self) -> None:
        """What the controller has made of the action holds until the next one."""
        controller = self._controller
        position, rotation = controller.goal_pos, controller.goal_ori
        if controller.input_ref_frame == "base":
            position = controller.origin_pos + np.dot(controller.origin_ori, position)
            rotation = np.dot(controller.origin_ori, rotation)
        self._goal = tuple(
            np.ascontiguousarray(array, np.float64)
            for array in (position, rotation, controller.kp, controller.kd, controller.initial_joint)
        )

    def act(self) -> bool:
        """Write this physics step's torques; False where that needs the stock controller."""
        jacobian = self._jacobian
        self._mujoco.mj_jacSite(self._model, self._data, jacobian[:3], jacobian[3:], self._site)
        self._mujoco.mj_fullM(self._model, self._mass, self._data.qM)
        return bool(self._torques(*self._state, *self._goal, self._controller.uncoupling))

    def show_state(self) -> None:
        """Leave the controller as the stock loop leaves it after the last physics step."""
        self._controller.update()
        self._controller.torques = self._data.ctrl[self._state[3]].copy()
        self._controller.new_update = True


class _Observables:
    """Stands in for `_update_observables`: all that sample alike share a clock, and are asked when it is due."""

    def __init__(self, environment: Any) -> None:
        from robosuite.utils.observables import NO_DELAY

        self._stock = type(environment)._update_observables.__get__(environment)
        self._environment = environment
        self._timestep = environment.model_timestep
        self._undelayed = NO_DELAY
        self._first = None  # type: Any
        self._now_s = 0.0
        self._left_s = 0.0

    def __call__(self, force: bool = False) -> None:
        """Between two events only the clock runs; observables hear of it at the next one."""
        first = self._first
        if first is None or force or first._time_since_last_sample != self._left_s:  # the last: it was reset
            self._ask(force)
            return
        now_s = self._now_s + self._timestep
        if now_s >= first._sampling_timestep or not first._sampled:
            self._ask(force)
        else:
            self._now_s = now_s

    def _ask(self, force: bool) -> None:
        observables = list(self._environment._observables.values())
        if self._first is not None and self._first._time_since_last_sample == self._left_s:
            for observable in observables:
                observable._time_since_last_sample = self._now_s
        self._stock(force)
        self._first = observables[0] if observables and self._alike(observables) else None
        if self._first is not None:
            self._now_s = self._left_s = self._first._time_since_last_sample

    def _alike(self, observables: list[Any]) -> bool:
        first = observables[0]
        return all(
            observable._enabled
            and observable._delayer is self._undelayed
            and observable._sampling_timestep == first._sampling_timestep
            and observable._sampled == first._sampled
            for observable in observables
        )
