from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ebrl.backends.protocols import Simulator
from ebrl.errors import SimulatorNotFound, UsageError
from ebrl.graph.items import Observation, Step

pytest.importorskip("mujoco")
if subprocess.run([sys.executable, "-c", "import robosuite"], capture_output=True).returncode:
    pytest.skip("robosuite is not installed", allow_module_level=True)

from ebrl.backends.simulators.robosuite import RobosuiteSimulator

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module")
def lift() -> RobosuiteSimulator:
    return RobosuiteSimulator("Lift", controller="OSC_POSITION", horizon=10)


def episode(simulator: RobosuiteSimulator, seed: int) -> tuple[Observation, list[Step]]:
    first, steps, rng = simulator.reset(seed), [], np.random.default_rng(0)
    while not steps or not steps[-1].truncated:
        steps.append(simulator.step(rng.uniform(-1, 1, simulator.spec.action.shape)))
    return first, steps


def same(one: Any, other: Any) -> bool:
    return (
        len(one[1]) == len(other[1])
        and all(np.array_equal(one[0][key], other[0][key]) for key in one[0])
        and all(a.reward == b.reward for a, b in zip(one[1], other[1], strict=True))
        and all(
            np.array_equal(a.observation[key], b.observation[key])
            for a, b in zip(one[1], other[1], strict=True)
            for key in one[0]
        )
    )


def test_it_declares_what_it_shows(lift: RobosuiteSimulator) -> None:
    assert isinstance(lift, Simulator)
    assert lift.spec.action.shape == (4,)
    assert np.array_equal(lift.spec.action.low, [-1] * 4)
    assert (lift.spec.control_hz, lift.spec.max_episode_steps) == (20, 10)
    assert {"cube_pos", "robot0_eef_pos", "gripper_to_cube_pos"} <= set(lift.spec.observation)
    assert not any(key.endswith("-state") or key == "progress" for key in lift.spec.observation)
    for observation in (lift.reset(0), lift.step(np.zeros(4)).observation):
        assert list(observation) == list(lift.spec.observation)
        for key, space in lift.spec.observation.items():
            assert observation[key].shape == space.shape
            assert observation[key].dtype == np.float32


def test_an_episode_depends_on_its_seed_alone(lift: RobosuiteSimulator) -> None:
    first = episode(lift, 5)
    other = episode(lift, 6)
    lift.reset(7)
    lift.step(np.ones(4))
    assert same(first, episode(lift, 5))
    assert same(first, episode(RobosuiteSimulator("Lift", controller="OSC_POSITION", horizon=10), 5))
    assert not same(first, other)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("Lift", {"hard_reset": True}),
        ("Stack", {}),
        ("Door", {}),
        ("NutAssembly", {}),
        ("PickPlace", {}),
        ("TwoArmLift", {}),
    ],
)
def test_every_generator_is_reseeded(task: str, options: dict[str, Any]) -> None:
    simulator = RobosuiteSimulator(task, horizon=2, **options)
    first = episode(simulator, 5)
    assert not same(first, episode(simulator, 6))
    assert same(first, episode(simulator, 5))


def test_a_placement_sampler_with_a_generator_of_its_own_is_reseeded() -> None:
    from robosuite.utils.placement_samplers import UniformRandomSampler

    own = UniformRandomSampler("own", x_range=(-0.1, 0.1), y_range=(-0.1, 0.1), reference_pos=(0, 0, 0.83))
    simulator = RobosuiteSimulator("Lift", horizon=2, placement_initializer=own)
    first = simulator.reset(5)["cube_pos"]
    assert not np.array_equal(first, simulator.reset(6)["cube_pos"])
    assert np.array_equal(first, simulator.reset(5)["cube_pos"])


def test_the_horizon_truncates(lift: RobosuiteSimulator) -> None:
    _, steps = episode(lift, 0)
    assert len(steps) == 10
    assert not any(step.terminated for step in steps)
    assert [step.truncated for step in steps] == [False] * 9 + [True]
    assert all(step.success is False for step in steps)


def test_success_is_reported(lift: RobosuiteSimulator) -> None:
    lift.reset(0)
    simulation = lift._environment.sim
    joint = lift._environment.cube.joints[0]
    simulation.data.set_joint_qpos(joint, np.array([0.0, 0.0, 1.1, 1.0, 0.0, 0.0, 0.0]))
    step = lift.step(np.zeros(4))
    assert step.success is True
    assert step.reward == pytest.approx(1.0)


def test_observations_are_those_of_the_present_state(lift: RobosuiteSimulator) -> None:
    # robosuite samples its sensors on a clock of their own; a stale reading would pass unnoticed.
    environment = lift._environment
    lift.reset(3)
    for _ in range(9):
        shown = lift.step(np.random.default_rng(0).uniform(-1, 1, 4)).observation
        assert np.allclose(shown["cube_pos"], environment.sim.data.body_xpos[environment.cube_body_id], atol=1e-6)
        gripper = environment.sim.data.site_xpos[environment.robots[0].eef_site_id["right"]]
        assert np.allclose(shown["robot0_eef_pos"], gripper, atol=1e-6)


def test_observations_are_chosen_and_progress_is_added_on_request() -> None:
    simulator = RobosuiteSimulator("Lift", horizon=4, observations=("progress", "cube_pos"))
    assert list(simulator.spec.observation) == ["progress", "cube_pos"]
    first, steps = episode(simulator, 0)
    assert list(first) == ["progress", "cube_pos"]
    assert [float(shown["progress"][0]) for shown in (first, *(step.observation for step in steps))] == [
        0.0, 0.25, 0.5, 0.75, 1.0,
    ]  # fmt: skip


def test_the_physics_step_is_a_setting_of_each_simulator() -> None:
    coarse, fine = RobosuiteSimulator("Lift", timestep=0.005), RobosuiteSimulator("Lift", timestep=0.002)
    for simulator, expected in ((coarse, 0.005), (fine, 0.002), (coarse, 0.005)):
        simulator.reset(0)
        assert simulator._environment.model_timestep == expected
        assert simulator._environment.sim.model.opt.timestep == expected
    assert coarse.spec.extra["timestep"] == 0.005


@pytest.mark.parametrize(
    ("task", "options", "kind", "message", "hint"),
    [
        ("Lyft", {}, SimulatorNotFound, "no robosuite task 'Lyft'", "did you mean 'Lift'?"),
        ("Lift", {"robot": "Pando"}, SimulatorNotFound, "no robosuite robot 'Pando'", "did you mean 'Panda'"),
        ("Lift", {"controller": "OSC_POS"}, UsageError, "no robosuite controller 'OSC_POS'", "did you mean 'OSC_POSE'"),
        ("Lift", {"horizn": 3}, UsageError, "robosuite's Lift has no option 'horizn'", "did you mean 'horizon'?"),
        ("Lift", {"observations": ("cube",)}, UsageError, "robosuite's Lift has no observation 'cube'", ""),
    ],
)
def test_names_that_do_not_exist(task: str, options: Any, kind: Any, message: str, hint: str) -> None:
    with pytest.raises(kind) as caught:
        RobosuiteSimulator(task, **options)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)
    assert caught.value.exit_code == 2


def test_nothing_but_the_simulator_is_imported_and_nothing_is_printed() -> None:
    program = """
import sys
from ebrl.backends.simulators.robosuite import RobosuiteSimulator
simulator = RobosuiteSimulator("Lift", horizon=2)
simulator.reset(0)
simulator.step(simulator.spec.action.low)
simulator.close()
sys.exit(3 if {"attr", "dask", "networkx", "torch"} & set(sys.modules) else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
