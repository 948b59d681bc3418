from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib import metadata

import numpy as np
import pytest

from ebrl.backends.conformance import CHECKS, Check, check_simulator
from ebrl.backends.protocols import BatchedSimulator, Simulator
from ebrl.backends.simulators.behavior import BehaviorSimulator
from ebrl.backends.simulators.behavior_goals import read_goals
from ebrl.errors import SimulatorError, SimulatorNotFound, UsageError

from .doubles import installed

pytest.importorskip("gymnasium")

ACTIVITY = "defrosting_freezer"
STARTS = {"randomize_presampled_pose": True}


@pytest.fixture(params=["behavior_lists", "behavior_tensors"])
def double(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both generations of OmniGibson's interface."""
    with installed("behavior", request.param):
        yield


@pytest.fixture
def goals_only() -> Iterator[None]:
    with installed("behavior"):
        yield


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("check", CHECKS, ids=repr)
def test_it_keeps_the_contract(check: Check) -> None:
    assert not check_simulator(
        lambda: BehaviorSimulator(ACTIVITY, horizon=9, modalities=("proprio", "rgb"), task=STARTS), checks=[check]
    )


@pytest.mark.usefixtures("double")
def test_it_declares_goals_and_observations() -> None:
    simulator = BehaviorSimulator(ACTIVITY, modalities=("proprio", "rgb"), horizon=7)
    assert isinstance(simulator, Simulator)
    spaces = {key: (space.shape, space.dtype) for key, space in simulator.spec.observation.items()}
    assert spaces == {
        "robot_0.proprio": ((3,), "float32"),
        "robot_0.robot_0:eyes:Camera:0.rgb": ((4, 5, 3), "uint8"),
    }
    assert np.array_equal(simulator.spec.action.low, [-1, -2])
    assert simulator.spec.instruction == "defrosting freezer"
    assert simulator.spec.extra["goals"][0] == "for every fridge, the following is NOT true: the fridge is frozen"
    assert simulator.spec.extra["scene"] == "Ihlen_1_int"
    assert (simulator.spec.max_episode_steps, simulator.spec.control_hz) == (7, 30.0)


@pytest.mark.usefixtures("double")
def test_prepared_starts_are_the_same_and_drawn_ones_follow_the_seed() -> None:
    prepared = BehaviorSimulator(ACTIVITY)
    assert prepared.spec.extra["constant"] is True
    drawn = BehaviorSimulator(ACTIVITY, task=STARTS)
    assert drawn.spec.extra["constant"] is False
    starts = [float(drawn.reset(seed)["robot_0.proprio"][2]) for seed in (1, 2, 1)]
    assert starts[0] == starts[2] != starts[1]


@pytest.mark.usefixtures("double")
def test_episodes_end_with_success_or_at_the_horizon() -> None:
    simulator = BehaviorSimulator(ACTIVITY, horizon=3)
    simulator.reset(0)
    steps = [simulator.step(np.array([1.0, 0.0])) for _ in range(2)]
    assert [(step.terminated, step.truncated, step.success) for step in steps] == [
        (False, False, False),
        (True, False, True),
    ]
    simulator.reset(0)
    assert [simulator.step(np.zeros(2)).truncated for _ in range(3)] == [False, False, True]


@pytest.mark.usefixtures("double")
def test_a_batch_resets_rows_alone() -> None:
    batch = BehaviorSimulator.batched(ACTIVITY, num_envs=3)
    assert isinstance(batch, BatchedSimulator)
    assert batch.reset(np.arange(3))["robot_0.proprio"].shape == (3, 3)
    step = batch.step(np.array([[9.0, 0.0], [0.5, 0.0], [0.25, 9.0]]))
    assert step.observation["robot_0.proprio"][:, :2].tolist() == [[1, 0], [0.5, 0], [0.25, 2]]
    assert step.rewards.dtype == np.float32
    assert [column.dtype for column in (step.terminated, step.truncated, step.success)] == [np.bool_] * 3
    assert batch.reset(np.array([4, 5]), np.array([2, 0]))["robot_0.proprio"][:, :2].tolist() == [[0, 0], [0, 0]]
    assert batch.step(np.zeros((3, 2))).observation["robot_0.proprio"][:, 0].tolist() == [0, 0.5, 0]
    with pytest.raises(ValueError, match="rows"):
        batch.reset(np.array([1]), np.array([3]))


@pytest.mark.usefixtures("double")
def test_omnigibson_does_not_keep_the_interrupt() -> None:
    before = signal.getsignal(signal.SIGINT)
    BehaviorSimulator(ACTIVITY)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("double")
def test_what_does_not_exist() -> None:
    with pytest.raises(SimulatorNotFound) as caught:
        BehaviorSimulator("defrosting_the_freezer")
    assert caught.value.hint.startswith("did you mean 'defrosting_freezer'")
    with pytest.raises(UsageError, match="has no definition 3"):
        BehaviorSimulator(ACTIVITY, definition=3)
    with pytest.raises(UsageError, match="nobody chose a scene"):
        BehaviorSimulator("turning_on_radio")
    with pytest.raises(SimulatorError, match="does not build defrosting_freezer in Ihlen_1_int") as failed:
        BehaviorSimulator(ACTIVITY, instance=404)
    assert "_404_template.json" in failed.value.detail
    with pytest.raises(UsageError, match="one environment per process"):
        BehaviorSimulator(ACTIVITY, num_envs=2)


@pytest.mark.usefixtures("goals_only")
def test_without_omnigibson(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "omnigibson", None)
    with pytest.raises(SimulatorNotFound) as caught:
        BehaviorSimulator(ACTIVITY)
    assert "RTX GPU" in caught.value.hint


@pytest.mark.usefixtures("goals_only")
def test_reading_goals_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert read_goals(ACTIVITY).scenes == ("Ihlen_1_int", "Rs_int")
    assert capfd.readouterr() == ("", "")


def test_the_real_goals() -> None:
    pytest.importorskip("bddl")
    if metadata.version("bddl").startswith("1."):
        pytest.skip("LIBERO's bddl knows other activities")
    goals = read_goals("putting_away_Halloween_decorations")
    assert goals.conditions == (
        "for every pumpkin, for at least one cabinet, the pumpkin is inside the cabinet",
        "for every candle, for at least one cabinet, the candle is inside the cabinet",
        "for at least one table, caldron1 is next to the table",
        "for every cabinet, the following is NOT true: the cabinet is open",
    )
    assert goals.scenes == ("Rs_int", "Merom_1_int", "Wainscott_0_int")
