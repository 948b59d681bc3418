from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ebrl.backends.protocols import Simulator
from ebrl.backends.simulators.gymnasium import GymnasiumSimulator
from ebrl.backends.simulators.mujoco_cameras import require
from ebrl.errors import SimulatorError, SimulatorNotFound, UsageError
from ebrl.graph.items import Step


class Toy(gymnasium.Env):
    """Counts its steps; ends by itself after `ends` of them and is solved then."""

    def __init__(self, observation: Any = None, action: Any = None, ends: int = 100) -> None:
        self.observation_space = observation or spaces.Box(-1, 1, (2,), np.float64)
        self.action_space = action or spaces.Box(-1, 1, (2,), np.float64)
        self.ends = ends
        self.received: list[Any] = []
        self._array = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        self._array[:] = self.np_random.uniform(size=2)
        return self.show(), {}

    def step(self, action: Any) -> Any:
        self.received.append(action)
        self.count += 1
        self._array += 1.0
        return self.show(), 1.0, self.count >= self.ends, False, {"is_success": self.count >= self.ends}

    def show(self) -> Any:
        return self._array


class Rich(Toy):
    """Image, nested state, text; the image is one array that is painted again and again."""

    def __init__(self) -> None:
        super().__init__(
            spaces.Dict(
                image=spaces.Box(0, 255, (2, 2, 3), np.uint8),
                instruction=spaces.Text(100),
                robot=spaces.Dict(arm=spaces.Box(-np.inf, np.inf, (7,)), gripper=spaces.Box(0, 1, (1,))),
            )
        )
        self.image = np.zeros((2, 2, 3), np.uint8)

    def show(self) -> Any:
        self.image += 1
        robot = {"arm": np.arange(7.0), "gripper": [0.5]}
        return {"image": self.image, "instruction": "lift the cube", "robot": robot}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gymnasium.register("Toy-v0", Toy)
    gymnasium.register("Timed-v0", Toy, max_episode_steps=3)
    gymnasium.register("Rich-v0", Rich)
    yield
    for name in ("Toy-v0", "Timed-v0", "Rich-v0"):
        del gymnasium.registry[name]


def run(simulator: GymnasiumSimulator, seed: int, steps: int = 20) -> list[Any]:
    found: list[Any] = [dict(simulator.reset(seed))]
    rng, action = np.random.default_rng(0), simulator.spec.action
    for _ in range(steps):
        step = simulator.step(rng.uniform(-1, 1, action.shape).astype(np.float32))
        found.append(step)
        if step.terminated or step.truncated:
            break
    return found


def same(one: list[Any], other: list[Any]) -> bool:
    def flat(found: list[Any]) -> Any:
        return [found[0], *(value for step in found[1:] for value in (step.observation, step[1:]))]

    return len(one) == len(other) and all(
        all(np.array_equal(a[key], b[key]) for key in a) if isinstance(a, dict) else a == b
        for a, b in zip(flat(one), flat(other), strict=True)
    )


@pytest.mark.parametrize("target", ["Pendulum-v1", "FetchReachDense-v4"])
def test_an_episode_depends_on_its_seed_alone(target: str) -> None:
    simulator = GymnasiumSimulator(target)
    assert isinstance(simulator, Simulator)
    first = run(simulator, 5)
    other = run(simulator, 6)
    assert same(first, run(simulator, 5))
    assert same(first, run(GymnasiumSimulator(target), 5))
    assert not same(first, other)


def test_a_plain_box_is_called_state_and_becomes_float32() -> None:
    simulator = GymnasiumSimulator("Pendulum-v1")
    (space,) = simulator.spec.observation.values()
    assert (space.shape, space.dtype) == ((3,), "float32")
    assert np.asarray(space.high).tolist() == [1, 1, 8]
    observation = simulator.reset(0)
    assert list(observation) == ["state"]
    assert observation["state"].dtype == np.float32
    assert simulator.spec.max_episode_steps == 200
    assert simulator.spec.control_hz == 20
    assert (simulator.spec.action.low, simulator.spec.action.high) == (-2, 2)
    assert simulator.step(np.zeros(1, np.float32)).success is None


def test_goal_environments_keep_their_three_keys() -> None:
    simulator = GymnasiumSimulator("FetchReachDense-v4")
    assert set(simulator.spec.observation) == {"observation", "achieved_goal", "desired_goal"}
    observation = simulator.reset(0)
    for key, space in simulator.spec.observation.items():
        assert observation[key].shape == space.shape
        assert observation[key].dtype == space.dtype
    assert simulator.spec.control_hz == 25
    assert simulator.step(np.zeros(4, np.float32)).success is False


def test_a_reused_array_is_copied() -> None:
    simulator = GymnasiumSimulator("Toy-v0")
    before = simulator.reset(0)["state"]
    after = simulator.step(np.zeros(2)).observation["state"]
    assert np.allclose(after - before, 1.0)


def test_images_text_and_nested_states() -> None:
    simulator = GymnasiumSimulator("Rich-v0")
    spaces_ = simulator.spec.observation
    assert {key: (space.shape, space.dtype) for key, space in spaces_.items()} == {
        "image": ((2, 2, 3), "uint8"),
        "instruction": ((), "str"),
        "robot.arm": ((7,), "float32"),
        "robot.gripper": ((1,), "float32"),
    }
    assert spaces_["robot.arm"].low is None
    observation = simulator.reset(0)
    later = simulator.step(np.zeros(2)).observation
    assert observation["image"].dtype == np.uint8
    assert (observation["image"] == 1).all()
    assert (later["image"] == 2).all()
    assert observation["instruction"] == "lift the cube"
    assert observation["robot.arm"].dtype == np.float32
    assert observation["robot.gripper"].shape == (1,)


@pytest.mark.parametrize(
    ("target", "options", "ends"),
    [
        ("Timed-v0", {}, (3, False, True, False)),
        ("Timed-v0", {"ends": 2}, (2, True, False, True)),
        ("Timed-v0", {"max_episode_steps": 5}, (5, False, True, False)),
        ("Toy-v0", {"ends": 4}, (4, True, False, True)),
    ],
)
def test_a_time_limit_truncates_and_the_task_terminates(target: str, options: Any, ends: Any) -> None:
    simulator = GymnasiumSimulator(target, **options)
    for seed in (0, 1):
        steps = run(simulator, seed)
        last: Step = steps[-1]
        assert (len(steps) - 1, last.terminated, last.truncated, last.success) == ends
        assert all(step.success is False for step in steps[1:-1])


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("Pendulun-v1", "did you mean 'Pendulum-v1'"),
        ("FetchReachDens-v4", "did you mean 'FetchReachDense-v4'"),
        ("Pendulum-v99", "did you mean 'Pendulum-v1'"),
    ],
)
def test_an_unknown_id_gets_a_hint(target: str, hint: str) -> None:
    with pytest.raises(SimulatorNotFound) as caught:
        GymnasiumSimulator(target)
    assert caught.value.message == f"no environment {target!r} in Gymnasium's registry"
    assert caught.value.hint.startswith(hint)
    assert caught.value.exit_code == 2


def test_an_option_that_the_environment_does_not_take() -> None:
    with pytest.raises(UsageError) as caught:
        GymnasiumSimulator("Pendulum-v1", gravity=9.8)
    assert caught.value.message == "'Pendulum-v1' does not take the options 'gravity'"
    assert "unexpected keyword argument 'gravity'" in caught.value.detail


def test_an_id_from_a_package_that_is_missing() -> None:
    with pytest.raises(SimulatorNotFound, match="'no_such:Mine-v0' needs a package that is not installed"):
        GymnasiumSimulator("no_such:Mine-v0")


class Drawn(Toy):
    metadata: ClassVar = {"render_modes": ["human", "rgb_array"], "render_fps": 8}
    render_mode: str | None = None

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.full((2, 3, 4), self.count, np.uint8)


def test_render_gives_a_frame_without_being_told_before() -> None:
    gymnasium.register("Drawn-v0", Drawn)
    try:
        simulator = GymnasiumSimulator("Drawn-v0")
        assert simulator.spec.control_hz == 8
        simulator.reset(0)
        simulator.step(np.zeros(2))
        frame = simulator.render()
        assert frame is not None
        assert (frame.dtype, frame.shape, frame.max()) == (np.uint8, (2, 3, 3), 1)
    finally:
        del gymnasium.registry["Drawn-v0"]


def test_render_of_what_draws_nothing() -> None:
    simulator = GymnasiumSimulator("Toy-v0")
    simulator.reset(0)
    assert simulator.render() is None


def test_mujoco_draws_without_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    try:
        require()
    except UsageError as missing:
        pytest.skip(missing.message)
    simulator = GymnasiumSimulator("FetchReachDense-v4")
    simulator.reset(0)
    frame = simulator.render()
    simulator.close()
    assert frame is not None
    assert frame.dtype == np.uint8 and frame.std() > 10


def test_render_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    simulator = GymnasiumSimulator("Pendulum-v1")
    simulator.reset(0)
    with pytest.raises(SimulatorError) as caught:
        simulator.render()
    assert caught.value.message == "Pendulum-v1 cannot be drawn here"
    assert "pygame" in caught.value.detail


def test_nothing_but_the_simulator_is_imported_and_nothing_is_printed() -> None:
    program = """
import sys
from ebrl.backends.simulators.gymnasium import GymnasiumSimulator
simulator = GymnasiumSimulator("FetchReachDense-v4")
simulator.reset(0)
sys.exit(3 if {"attr", "dask", "torch"} & set(sys.modules) else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
