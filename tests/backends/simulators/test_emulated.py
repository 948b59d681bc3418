from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.backends.protocols import Simulator
from ebrl.backends.simulators import emulated_costs
from ebrl.backends.simulators.emulated import NUMBER, emulated
from ebrl.backends.simulators.emulated_costs import Cost, mean_of
from ebrl.backends.simulators.emulated_faults import EmulatedFault
from ebrl.backends.simulators.emulated_profiles import PROFILES
from ebrl.errors import SimulatorError, SimulatorNotFound, UsageError
from ebrl.graph.items import Step


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that would have been slept."""
    found: list[float] = []
    monkeypatch.setitem(emulated_costs.MODES, "sleep", found.append)
    return found


def episode(simulator: Any, seed: int) -> list[Any]:
    """Bytes and numbers of a whole episode."""
    found: list[Any] = [{key: np.asarray(value).tobytes() for key, value in simulator.reset(seed).items()}]
    while True:
        step: Step = simulator.step(np.full(simulator.spec.action.shape, 0.5, np.float32))
        found.append(({key: np.asarray(value).tobytes() for key, value in step.observation.items()}, step[1:]))
        if step.terminated or step.truncated:
            return found


def test_all_that_an_episode_shows_and_costs_follows_from_its_seed(spent: list[float]) -> None:
    options = {"horizon": 30, "length": 12, "length_spread": 1, "success": 0.5, "cameras": 1, "image": 4}
    simulator = emulated("lift", **options)
    first, cost = episode(simulator, 5), spent[:]
    assert episode(simulator, 6) != first
    spent.clear()
    again = emulated("lift", **options)
    assert episode(again, 5) == first
    assert spent == cost


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile(profile: str, spent: list[float]) -> None:
    simulator = emulated(profile, horizon=2, image=4)
    assert isinstance(simulator, Simulator)
    observation = simulator.reset(0)
    assert list(observation) == list(simulator.spec.observation)
    for key, space in simulator.spec.observation.items():
        if space.dtype != "str":
            assert (observation[key].shape, observation[key].dtype) == (space.shape, space.dtype)
    episode(simulator, 0)
    assert len(spent) == 1 + 1 + 1 + 2  # start, reset, reset and two steps
    assert all(0 < cost < 10 for cost in spent[1:])


def test_lognormal_costs_have_the_mean_and_the_p99_that_were_asked_for() -> None:
    cost, rng = Cost("step", 0.04, 0.06), np.random.default_rng(0)
    drawn = np.array([cost.draw(rng) for _ in range(40_000)])
    assert drawn.mean() == pytest.approx(0.04, rel=0.01)
    assert np.quantile(drawn, 0.99) == pytest.approx(0.06, rel=0.02)


def test_the_mean_of_a_measured_median_and_p99() -> None:
    cost, rng = Cost("step", mean_of(0.009, 0.013), 0.013), np.random.default_rng(0)
    drawn = np.array([cost.draw(rng) for _ in range(40_000)])
    assert np.median(drawn) == pytest.approx(0.009, rel=0.01)
    assert np.quantile(drawn, 0.99) == pytest.approx(0.013, rel=0.02)


def test_costs_from_a_table_and_constant_ones(spent: list[float]) -> None:
    simulator = emulated("constant", step_table=(1, 2, 3), reset_s=7, horizon=200)
    episode(simulator, 0)
    assert spent[:2] == [0.0, 7.0]
    assert set(spent[2:]) == {1, 2, 3}


def test_spin_uses_a_core() -> None:
    simulator = emulated("constant", mode="spin", step_s=0.1, reset_s=0)
    simulator.reset(0)
    before_s = time.process_time()
    simulator.step(np.zeros(2))
    assert time.process_time() - before_s >= 0.1


def test_stragglers_are_chosen_by_their_number(spent: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = emulated("constant", stragglers=(3,), straggler_factor=4, step_s=1, reset_s=2, horizon=1)
    for number, costs in (("2", [2.0, 1.0]), ("3", [8.0, 4.0])):
        monkeypatch.setenv(NUMBER, number)
        spent.clear()
        episode(simulator, 0)
        assert spent == costs
    monkeypatch.delenv(NUMBER)
    with pytest.raises(SimulatorError, match="does not know the number of its environment"):
        simulator.reset(0)


def test_ends_of_episodes() -> None:
    simulator = emulated("constant", step_s=0, reset_s=0, horizon=20, length=15, length_spread=1, success=0.5)
    ends = [episode(simulator, seed) for seed in range(300)]
    found = {(len(steps) - 1 == 20, *steps[-1][1][1:]) for steps in ends}
    assert found == {
        (False, True, False, True),  # solved
        (False, True, False, False),  # failed
        (True, True, False, True),  # solved in the last step
        (True, False, True, False),  # cut
    }
    assert all(step[1][3] is False for steps in ends for step in steps[1:-1])
    solved = [steps[-1][1][3] for steps in ends]
    assert 0.4 < np.mean(solved) < 0.6


def test_lengths_shrink_over_the_run() -> None:
    simulator = emulated(
        "constant", step_s=0, reset_s=0, horizon=100, length=80, success=1, shrink=0.25, shrink_episodes=3
    )
    assert [len(episode(simulator, seed)) - 1 for seed in range(5)] == [80, 60, 40, 20, 20]
    simulator = emulated("constant", step_s=0, reset_s=0, horizon=100, success=0, shrink=0.5, shrink_episodes=1)
    lasts = [episode(simulator, seed) for seed in range(2)]
    assert [(len(steps) - 1, steps[-1][1][2]) for steps in lasts] == [(100, True), (50, True)]


def test_the_reward_follows_the_state_that_was_shown() -> None:
    simulator = emulated("constant", step_s=0, reset_s=0)
    shown = simulator.reset(0)["state"]
    assert simulator.step(shown[:2]).reward == 1.0
    assert simulator.step(-np.ones(2)).reward < 1.0


@pytest.mark.parametrize(
    ("faults", "resets", "steps"),
    [
        ("raise@step:3", None, 3),
        ("raise@step:3+", None, 3),
        ("raise@step", None, 1),
        ("raise@reset:2", 2, None),
        ("raise@reset:2+,raise@step:90", 2, None),
    ],
)
def test_where_a_fault_strikes(faults: str, resets: int | None, steps: int | None) -> None:
    simulator = emulated("constant", step_s=0, reset_s=0, faults=faults)
    for _ in range((resets or 1) - 1):
        simulator.reset(0)
    if resets:
        with pytest.raises(EmulatedFault):
            simulator.reset(0)
        return
    simulator.reset(0)
    for _ in range((steps or 1) - 1):
        simulator.step(np.zeros(2))
    with pytest.raises(EmulatedFault, match=r"injected: raise@step"):
        simulator.step(np.zeros(2))


def test_the_probability_of_a_fault_is_drawn_from_the_seed() -> None:
    def struck(seed: int) -> bool:
        simulator = emulated("constant", step_s=0, reset_s=0, faults="raise@step:1*0.5")
        simulator.reset(seed)
        try:
            simulator.step(np.zeros(2))
        except EmulatedFault:
            return True
        return False

    found = [struck(seed) for seed in range(200)]
    assert found == [struck(seed) for seed in range(200)]
    assert 0.3 < np.mean(found) < 0.7


def test_not_a_number_in_state_or_reward() -> None:
    simulator = emulated("constant", step_s=0, reset_s=0, faults="nan@step:1,nan@reset:2")
    assert np.isfinite(simulator.reset(0)["state"]).all()
    step = simulator.step(np.zeros(2))
    assert np.isnan(step.observation["state"][0]) and math.isfinite(step.reward)
    assert np.isnan(simulator.reset(0)["state"][0])
    blind = emulated("constant", step_s=0, reset_s=0, state=0, cameras=1, image=4, faults="nan@step:1")
    blind.reset(0)
    assert math.isnan(blind.step(np.zeros(2)).reward)


def test_only_some_environments_are_faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = emulated("constant", step_s=0, reset_s=0, faults="raise@reset", faulty=(1,))
    monkeypatch.setenv(NUMBER, "0")
    simulator.reset(0)
    monkeypatch.setenv(NUMBER, "1")
    with pytest.raises(EmulatedFault):
        simulator.reset(0)


@pytest.mark.parametrize(("kind", "code"), [("exit", 1), ("segfault", -signal.SIGSEGV), ("leak", 0)])
def test_faults_that_need_a_process_of_their_own(kind: str, code: int) -> None:
    program = f"""
import psutil
from ebrl.backends.simulators.emulated import emulated
simulator = emulated("constant", step_s=0, reset_s=0, faults="{kind}@reset:2", leak_mib=50)
simulator.reset(0)
before = psutil.Process().memory_info().rss
simulator.reset(0)
assert psutil.Process().memory_info().rss - before > 45 * 2**20
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == code, done.stderr


def test_a_profile_from_a_file(tmp_path: Path, spent: list[float]) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"step_table": [0.5], "horizon": 3}))
    simulator = emulated(str(file), horizon=2)
    episode(simulator, 0)
    assert spent == [0.0, 0.0, 0.5, 0.5]
    file.write_text("[")
    with pytest.raises(SimulatorNotFound, match="cannot be read"):
        emulated(str(file))


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"step": 1}, "emulated environments have no option 'step'", "did you mean 'step_s'"),
        ({"mode": "spinn"}, "mode is 'spinn'", "did you mean 'spin'?"),
        ({"success": 2}, "success is 2; it must be 0 to 1", ""),
        ({"horizon": 0}, "horizon is 0; it must be at least 1", ""),
        ({"step_s": -1}, "step costs are seconds of at least 0", ""),
        ({"step_p99_s": 1}, "no lognormal distribution has a mean of 0.01 s and a P99 of 1 s", "make step_p99_s 1 to"),
        ({"state": 0}, "there is nothing to observe", ""),
        ({"faults": "rise@step"}, "no fault is named 'rise'", "did you mean 'raise'?"),
        ({"faults": "raise@stop"}, "the fault 'raise@stop' strikes in no call named 'stop'", "did you mean 'step'"),
        ({"faults": "raise"}, "the fault 'raise' cannot be read", "write kind@call"),
        ({"faults": "raise@step*e"}, "the fault 'raise@step*e' cannot be read", "write kind@call"),
        ({"faults": "nan@close"}, "the fault 'nan@close' cannot strike: only reset and step show numbers", ""),
        ({"faults": "hang@start", "faulty": 1}, "`faulty` and a fault at start exclude one another", "numbers are"),
        ({"faults": "raise@start*0.5"}, "the fault 'raise@start*0.5' has a probability that cannot be drawn", "0 to 1"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        emulated("constant", **options)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


def test_an_unknown_profile() -> None:
    with pytest.raises(SimulatorNotFound) as caught:
        emulated("lifted")
    assert caught.value.message == "no emulated profile is named 'lifted'"
    assert caught.value.hint.startswith("did you mean 'lift'")


def test_faults_of_start_and_close() -> None:
    with pytest.raises(EmulatedFault):
        emulated("constant", faults="raise@start")
    simulator = emulated("constant", faults="raise@close")
    with pytest.raises(EmulatedFault):
        simulator.close()
    simulator.close()
