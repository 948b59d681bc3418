from __future__ import annotations

import builtins
from collections.abc import Iterator

import numpy as np
import pytest

from ebrl.backends.conformance import CHECKS, Check, check_simulator
from ebrl.backends.protocols import BatchedSimulator, Simulator
from ebrl.backends.simulators.maniskill import ManiSkillSimulator
from ebrl.errors import SimulatorError, SimulatorNotFound, UsageError

from .doubles import installed

pytest.importorskip("gymnasium")


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    with installed("maniskill"):
        yield


@pytest.mark.parametrize("check", CHECKS, ids=repr)
@pytest.mark.parametrize("options", [{}, {"obs_mode": "rgb+depth", "image_size": (6, 8)}], ids=["state", "images"])
def test_it_keeps_the_contract(check: Check, options: dict[str, object]) -> None:
    assert not check_simulator(lambda: ManiSkillSimulator("Walk-v1", **options), checks=[check])


def test_one_environment_has_no_batch_dimension() -> None:
    simulator = ManiSkillSimulator("Walk-v1")
    assert isinstance(simulator, Simulator)
    assert simulator.reset(3)["state"].shape == simulator.spec.observation["state"].shape == (2,)
    assert (simulator.spec.action.shape, simulator.spec.control_hz) == ((1,), 20.0)
    step = simulator.step(np.array([1.0]))
    assert [type(value) for value in step[1:]] == [float, bool, bool, bool]
    assert simulator.render().shape == (8, 9, 3)


def test_parts_and_cameras_have_names_without_nesting() -> None:
    simulator = ManiSkillSimulator("Walk-v1", obs_mode="rgb+depth", image_size=(6, 8))
    spaces = {key: (space.shape, space.dtype) for key, space in simulator.spec.observation.items()}
    assert spaces == {
        "agent.qpos": ((2,), "float32"),
        "extra.is_grasped": ((1,), "float32"),
        "base_camera": ((6, 8, 3), "uint8"),
        "base_camera.depth": ((6, 8, 1), "float32"),
    }


@pytest.mark.parametrize(("options", "limit"), [({}, 5), ({"horizon": 2}, 2)], ids=["registered", "own"])
def test_the_time_limit_truncates(options: dict[str, int], limit: int) -> None:
    simulator = ManiSkillSimulator("Walk-v1", **options)
    assert simulator.spec.max_episode_steps == limit
    simulator.reset(0)
    steps = [simulator.step(np.zeros(1)) for _ in range(limit)]
    assert [step.truncated for step in steps] == [False] * (limit - 1) + [True]
    assert not any(step.terminated or step.success for step in steps)


def test_success_ends_an_episode() -> None:
    simulator = ManiSkillSimulator("Walk-v1", horizon=10)
    simulator.reset(0)
    steps = [simulator.step(np.ones(1)) for _ in range(3)]
    assert [(step.terminated, step.success) for step in steps] == [(False, False)] * 2 + [(True, True)]


def test_several_robots_take_one_action() -> None:
    simulator = ManiSkillSimulator("TwoRobotWalk-v1")
    assert np.array_equal(simulator.spec.action.high, [1, 2, 2])
    simulator.reset(0)
    simulator.step(np.zeros(3))


@pytest.mark.parametrize(
    ("task", "message", "hint"),
    [
        ("Wolk-v1", "no ManiSkill task 'Wolk-v1'", "did you mean 'Walk-v1'"),
        ("PickYCB-v1", "needs assets that are not on this machine: ycb", "download_asset PickYCB-v1 -y"),
        ("Asking-v1", "needs assets that are not on this machine: those of robot xarm6", "download_asset xarm6 -y"),
    ],
)
def test_it_asks_nothing(task: str, message: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(prompt: object = "") -> str:
        raise AssertionError(f"a question: {prompt}")

    monkeypatch.setattr(builtins, "input", ask)
    with pytest.raises(SimulatorNotFound) as caught:
        ManiSkillSimulator(task)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert builtins.input is ask


@pytest.mark.parametrize(
    ("lack", "backend", "message", "hint"),
    [
        ("no vulkan", "physx_cpu", "finds no Vulkan device", "apt-get install libvulkan1 mesa-vulkan-drivers"),
        ("no cuda", "physx_cuda", "finds no CUDA device", "without sim_backend the CPU simulates"),
    ],
)
def test_a_missing_device(lack: str, backend: str, message: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOUBLE_HAS", lack)
    with pytest.raises(SimulatorError) as caught:
        ManiSkillSimulator("Walk-v1", sim_backend=backend)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_unknown_option_names_those_given() -> None:
    with pytest.raises(UsageError, match="does not accept one of colour"):
        ManiSkillSimulator("Walk-v1", colour="red")
    with pytest.raises(UsageError, match="one environment per process"):
        ManiSkillSimulator("Walk-v1", num_envs=4)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "mani_skill", None)
    with pytest.raises(SimulatorNotFound) as caught:
        ManiSkillSimulator("Walk-v1")
    assert caught.value.hint == "ebrl env create maniskill"


def test_a_batch_steps_together() -> None:
    batch = ManiSkillSimulator.batched("Walk-v1", num_envs=3)
    assert isinstance(batch, BatchedSimulator)
    assert batch.spec.observation["state"].shape == (2,)
    assert batch.spec.extra["sim_backend"] == "physx_cuda"
    first = batch.reset(np.arange(3))["state"]
    kept = first.copy()
    step = batch.step(np.array([[0.0], [0.5], [5.0]]))
    assert np.allclose(step.observation["state"][:, 0] - kept[:, 0], [0, 0.5, 1])
    assert np.array_equal(first, kept), "observations own their memory"
    assert (step.rewards.shape, step.rewards.dtype) == ((3,), np.float32)
    assert [column.dtype for column in (step.terminated, step.truncated, step.success)] == [np.bool_] * 3


def test_rows_are_reset_alone_and_their_last_observation_stays() -> None:
    batch = ManiSkillSimulator.batched("Walk-v1", num_envs=3)
    batch.reset(np.arange(3))
    for _ in range(3):
        step = batch.step(np.array([[1.0], [0.0], [0.0]]))
    assert step.terminated.tolist() == [True, False, False]
    assert step.observation["state"][0, 0] >= 3, "the end of that episode, not the start of the next"
    others = step.observation["state"][1:]
    shown = batch.reset(np.array([77]), np.array([0]))["state"]
    assert shown.shape == (1, 2)
    assert batch._environment.resets[-1] == [0]
    step = batch.step(np.zeros((3, 1)))
    assert np.array_equal(step.observation["state"][1:], others)
    assert step.observation["state"][0, 0] == shown[0, 0]
    assert batch.step(np.zeros((3, 1))).truncated.tolist() == [False, True, True], "each row counts its own steps"


def test_partial_resets_begin_with_what_their_seeds_say() -> None:
    batch = ManiSkillSimulator.batched("Walk-v1", num_envs=3)

    def begin(seed: int, rows: list[int]) -> list[float]:
        shown = batch.reset(np.arange(seed, seed + len(rows)), np.array(rows))["state"]
        return [float(value) for value in shown[:, 0]]

    batch.reset(np.arange(3))
    once = begin(50, [1])
    assert once != begin(60, [1]), "ManiSkill draws for all rows from the seed of row 0"
    begin(9, [0, 2])
    assert once == begin(50, [1])
    assert begin(50, [2, 1]) == begin(50, [2, 1])


@pytest.mark.parametrize(
    ("seeds", "rows"), [([1, 2], [0]), ([1, 2], [1, 1]), ([1], [3]), ([1], [-1]), ([1, 2], None), ([[1]], [[0]])]
)
def test_rows_that_do_not_fit(seeds: list[int], rows: list[int] | None) -> None:
    batch = ManiSkillSimulator.batched("Walk-v1", num_envs=3)
    with pytest.raises(ValueError, match="rows"):
        batch.reset(np.array(seeds), None if rows is None else np.array(rows))


def test_no_rows_at_all() -> None:
    batch = ManiSkillSimulator.batched("Walk-v1", num_envs=3)
    assert batch.reset(np.array([], int), np.array([], int))["state"].shape == (0, 2)
