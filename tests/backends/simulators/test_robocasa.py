from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.backends.conformance import CHECKS, Check, check_simulator
from ebrl.backends.protocols import Simulator
from ebrl.backends.registry import parse_uri
from ebrl.backends.simulators import robocasa_scene
from ebrl.backends.simulators.robocasa import RobocasaSimulator
from ebrl.errors import SimulatorNotFound, UsageError
from ebrl.interpreters.pins import Pins

from .doubles import installed

OPENING = np.eye(12)[0]


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    with installed("robocasa"):
        yield


def drawer(**options: Any) -> RobocasaSimulator:
    return RobocasaSimulator("OpenDrawer", scene="primitives", **options)


@pytest.mark.parametrize("check", [check for check in CHECKS if check.name != "render"], ids=repr)
def test_it_keeps_the_contract(check: Check) -> None:
    assert not check_simulator(drawer, checks=[check])


def test_it_declares_the_robot_and_the_fixtures_of_the_task() -> None:
    simulator = drawer()
    assert isinstance(simulator, Simulator)
    assert list(simulator.spec.observation) == [
        "robot0_eef_pos",
        "drawer_pos",
        "drawer_to_robot0_eef_pos",
        "drawer_openness",
    ]
    assert simulator.spec.action.shape == (12,)
    shown = simulator.reset(1)
    assert np.allclose(shown["drawer_to_robot0_eef_pos"], shown["robot0_eef_pos"] - shown["drawer_pos"])


def test_doors_of_cabinets_tell_in_another_way() -> None:
    simulator = RobocasaSimulator("OpenCabinet", scene="primitives", horizon=9)
    simulator.reset(1)
    assert simulator.step(OPENING).observation["fxtr_openness"] == pytest.approx([0.25])


def test_the_horizon_truncates_what_never_ends_by_itself() -> None:
    simulator = drawer()
    assert simulator.spec.max_episode_steps == 6, "RoboCasa's own horizon of the task"
    for _ in range(2):
        simulator.reset(0)
        steps = [simulator.step(np.zeros(12)) for _ in range(6)]
        assert [step.truncated for step in steps] == [False] * 5 + [True]
        assert not any(step.terminated or step.success for step in steps)
    assert RobocasaSimulator("OpenCabinet", scene="primitives").spec.max_episode_steps == 500
    assert drawer(horizon=3).spec.max_episode_steps == 3


def test_success_terminates() -> None:
    simulator = drawer(horizon=4)
    simulator.reset(0)
    steps = [simulator.step(OPENING) for _ in range(4)]
    assert [step.success for step in steps] == [False] * 3 + [True]
    assert (steps[-1].terminated, steps[-1].truncated, steps[-1].reward) == (True, False, 1.0)
    assert type(steps[-1].success) is bool


def test_the_instruction_is_that_of_the_episode() -> None:
    simulator = drawer(observations=("instruction", "drawer_openness", "progress"))
    told = {simulator.reset(seed)["instruction"] for seed in range(8)}
    assert told == {"Open the left drawer.", "Open the right drawer."}
    assert simulator.step(np.zeros(12)).observation["progress"] == pytest.approx([1 / 6])


def test_the_scene_of_primitives_uses_only_what_ships() -> None:
    textures = {
        value
        for parts in robocasa_scene.primitives().values()
        for fixtures in parts.values()
        for config in fixtures
        for key, value in config.items()
        if "texture" in key
    }
    assert all(Path(texture).is_file() and "/textures/" in texture for texture in textures)
    assert robocasa_scene.primitives() is not robocasa_scene.primitives()


@pytest.mark.parametrize(
    ("task", "options", "kind", "message", "hint"),
    [
        ("OpenDraw", {}, SimulatorNotFound, "no RoboCasa task 'OpenDraw'", "did you mean 'OpenDrawer'"),
        ("BoilPot", {}, SimulatorNotFound, "textures and objects are not on this machine", "download_kitchen_assets"),
        ("BoilPot", {"scene": "primitives"}, UsageError, "cannot be done in the scene of primitives", "OpenDrawer"),
        (
            "OpenDrawer",
            {"scene": "primitive"},
            UsageError,
            "no RoboCasa scene 'primitive'",
            "did you mean 'primitives'",
        ),
        (
            "OpenDrawer",
            {"scene": "primitives", "robot_spawn_deviation_pos": 1},
            UsageError,
            "has no option 'robot_spawn_deviation_pos'",
            "did you mean 'robot_spawn_deviation_pos_x'",
        ),
        ("OpenDrawer", {"scene": "primitives", "observations": "cube"}, UsageError, "no observation 'cube'", ""),
    ],
)
def test_what_does_not_exist(task: str, options: Any, kind: Any, message: str, hint: str) -> None:
    with pytest.raises(kind) as caught:
        RobocasaSimulator(task, **options)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_stock_assets_are_named_with_their_size_and_the_way_around() -> None:
    with pytest.raises(SimulatorNotFound) as caught:
        RobocasaSimulator("OpenDrawer")
    assert "robocasa.scripts.download_kitchen_assets (10 GB)" in caught.value.hint
    assert "robocasa:OpenDrawer?scene=primitives" in caught.value.hint


def test_the_pins_say_what_to_try() -> None:
    pins = Pins.parse(Path(robocasa_scene.__file__).with_name("robocasa.txt").read_text())
    assert parse_uri(f"robocasa:{pins.check}") == ("robocasa", "OpenDrawer", {"scene": "primitives"})
    needed = {requirement for section in pins.sections for requirement in section.requirements}
    assert {"mujoco==3.3.1", "numpy==2.2.5"} <= needed
    assert not any(requirement.startswith("evdev") for requirement in needed)
