from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("robosuite")

from ebrl.backends.simulators.robosuite import RobosuiteSimulator
from ebrl.backends.simulators.robosuite_fast import accelerate

pytestmark = pytest.mark.simulator

STEPS = 200


def simulator(task: str, **options: Any) -> RobosuiteSimulator:
    made = RobosuiteSimulator(task, fast_control=False, **options)
    made.reset(7)
    return made


def trajectory(made: RobosuiteSimulator, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Joint positions [STEPS, nq] and rewards [STEPS] under random actions of that scale."""
    generator = np.random.default_rng(3)
    positions, rewards = [], []
    for _ in range(STEPS):
        step = made.step(scale * generator.uniform(made._low, made._high))
        positions.append(np.array(made._environment.sim.data.qpos))
        rewards.append(step.reward)
    return np.array(positions), np.array(rewards)


@pytest.mark.parametrize(
    ("task", "options", "scale"),
    [
        ("Lift", {"controller": "OSC_POSITION"}, 1.0),
        ("Lift", {"controller": "OSC_POSE"}, 0.3),
        ("Lift", {"robot": "Sawyer", "controller": "OSC_POSITION"}, 1.0),
        ("Stack", {"controller": "OSC_POSE"}, 0.3),
        ("Door", {"controller": "OSC_POSE"}, 0.3),
        ("NutAssembly", {"controller": "OSC_POSE"}, 0.3),
        ("Wipe", {}, 1.0),
        ("TwoArmLift", {}, 0.3),
    ],
)
def test_trajectories_equal_the_stock_ones(task: str, options: dict[str, Any], scale: float) -> None:
    stock, fast = simulator(task, **options), simulator(task, **options)
    assert accelerate(fast._environment) is None
    positions, rewards = trajectory(stock, scale)
    fast_positions, fast_rewards = trajectory(fast, scale)
    assert np.abs(positions - fast_positions).max() < 1e-6
    assert np.abs(rewards - fast_rewards).max() < 1e-6


@pytest.mark.parametrize("task", ["Lift", "TwoArmLift"])
def test_torques_equal_the_stock_ones_in_any_pose(task: str) -> None:
    """Where contacts amplify rounding, trajectories part; each physics step must still agree."""
    made = simulator(task, controller="OSC_POSE")
    environment = made._environment
    assert accelerate(environment) is None
    control, ctrl, compared = environment._pre_action, environment.sim.data.ctrl, 0

    def both(action: np.ndarray, policy_step: bool = False) -> None:
        nonlocal compared
        if policy_step:  # takes in the action, and that must happen once
            control(action, policy_step)
            return
        control._stock(action)
        wanted = ctrl.copy()
        control(action)
        np.testing.assert_allclose(ctrl, wanted, rtol=1e-7, atol=1e-7)
        compared += 1

    environment._pre_action = both
    trajectory(made, 1.0)
    assert compared == STEPS * 24


def test_observations_and_controllers_are_left_as_by_the_stock_loop() -> None:
    stock, fast = (simulator("Lift", controller="OSC_POSITION") for _ in range(2))
    accelerate(fast._environment)
    for number in range(60):
        if number == 30:
            stock.reset(8), fast.reset(8)
        action = np.full(4, 0.2 - 0.01 * number)
        seen, also = stock.step(action), fast.step(action)
        for key, value in seen.observation.items():
            np.testing.assert_allclose(value, also.observation[key], atol=1e-6, err_msg=key)
    ours, theirs = (made._environment.robots[0].part_controllers["right"] for made in (fast, stock))
    for name in ("ref_pos", "ref_ori_mat", "ref_pos_vel", "joint_pos", "joint_vel", "mass_matrix", "torques", "J_full"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-6, err_msg=name)
    assert ours.new_update == theirs.new_update
    for mine, other in zip(
        fast._environment._observables.values(), stock._environment._observables.values(), strict=True
    ):
        assert mine._time_since_last_sample == other._time_since_last_sample
        assert mine._sampled == other._sampled


@pytest.mark.parametrize("hard_reset", [False, True])
def test_a_reset_that_rebuilds_is_followed(hard_reset: bool) -> None:
    stock, fast = (simulator("Lift", controller="OSC_POSITION", hard_reset=hard_reset) for _ in range(2))
    accelerate(fast._environment)
    for seed in (1, 2):
        for made in (stock, fast):
            made.reset(seed)
        np.testing.assert_allclose(trajectory(fast, 1.0)[0], trajectory(stock, 1.0)[0], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"robot": "UR5e"}, "UR5e has fewer than 7 joints"),
        ({"controller": "JOINT_POSITION"}, "the controller of right is a JointPositionController"),
        ({"lite_physics": False}, "lite_physics is off"),
    ],
)
def test_what_keeps_its_stock_controllers_says_why(options: dict[str, Any], reason: str) -> None:
    made = simulator("Lift", **options)
    assert accelerate(made._environment) == reason
    made.step(np.zeros(len(made._low)))


def test_it_is_on_unless_it_is_switched_off_and_says_so() -> None:
    assert RobosuiteSimulator("Lift").spec.extra["control"] == "compiled"
    assert RobosuiteSimulator("Lift", fast_control=False).spec.extra["control"] == "stock: fast_control is off"
