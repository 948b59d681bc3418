"""Faulty simulators: what is said about them, and that the others go on."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import psutil
import pytest

from ebrl.errors import SimulatorError, SimulatorNotFound
from ebrl.runtime.rollout import Deadlines
from ebrl.runtime.seeding import reset_seed

from .playing import Play, order, shown_seed

DEADLINES = Deadlines(start_s=30.0, reset_s=0.8, step_s=0.8)


def seeds(environment: int, episodes: range = range(1)) -> list[int]:
    return [reset_seed(0, "simulate", environment, episode) for episode in episodes]


def victim_of_two(simulator: str, **settings: Any) -> Play:
    """Two environments, the second of which has a fault in its first episode."""
    return Play(order(simulator, seeds=seeds(1)), num_envs=2, num_steps=10, settings={"in_order": True} | settings)


@pytest.mark.parametrize(
    "simulator", ["raising.Raising", "dying.Segfaulting", "hanging.HangingStep", "misshapen.NaNReward"]
)
def test_the_step_of_a_fault_is_known_where_many_were_granted(simulator: str) -> None:
    settings = {"quantum": 16, "deadlines": DEADLINES}
    with Play(order(simulator, seeds=seeds(0)), chunk=16, num_steps=2, settings=settings) as play:
        play.batch()
        assert [(lost["episode"], lost["step"]) for lost in play.lost] == [(0, 7)]


def test_a_deadline_is_for_one_step_however_many_were_granted() -> None:
    simulator = attrs.evolve(
        order("counting.Counting", step_s=0.6, reset_s=0.0, horizon=8),
        factory={"module": "ebrl.backends.simulators.emulated", "name": "emulated"},
        target="constant",
    )
    deadlines = Deadlines(start_s=30.0, reset_s=30.0, step_s=1.5)
    with Play(simulator, chunk=4, num_steps=1, settings={"quantum": 4, "deadlines": deadlines}) as play:
        play.batch()
        assert play.lost == []


@pytest.mark.parametrize(
    ("simulator", "message", "detail"),
    [
        ("raising.Raising", "RuntimeError: the gripper is stuck", r'raising.py", line \d+, in fault'),
        ("raising.RaisingUnprintable", "Unprintable (and its message raises)", "in fault"),
        ("raising.RaisingSystemExit", "SystemExit: license expired", "in fault"),
        ("dying.Exiting", "environment process exited with code 1", "physics engine: out of licenses"),
        ("dying.Segfaulting", "environment process was killed by SIGSEGV", r"Segmentation fault(.|\n)*in fault"),
        ("dying.Signalled", f"environment process was killed by signal {signal.SIGRTMIN + 1}", ""),
        ("disturbing.Asking", "the simulator asked for keyboard input: 'Press Enter to go on'", ""),
        ("misshapen.NaNObservation", "observation 'state' from step() is nan at index (2,)", "nan"),
        ("misshapen.NaNReward", "the reward is nan", ""),
        ("misshapen.NoReward", "the reward is None; expected a number", ""),
    ],
)
def test_a_fault_in_step_7(simulator: str, message: str, detail: str) -> None:
    with victim_of_two(simulator) as play:
        healthy, broken = play.batch()
        (lost,) = play.lost
        assert re.search(detail, lost.pop("detail"))
        assert lost == {
            "environment": 1,
            "simulator": f"bad:{simulator.split('.')[1]}",
            "episode": 0,
            "step": 7,
            "seed": seeds(1)[0],
            "doing": "step",
            "message": message,
            "hint": "",
            "restart": True,
        }
        assert len(healthy) == 10 and not healthy.truncated
        assert len(broken) == 6 and broken.truncated and not broken.terminated
        assert broken.observations["state"][:, 2].tolist() == [0, 1, 2, 3, 4, 5, 6]
        assert [(e.environment, e.steps, e.lost, e.success) for e in play.episodes] == [(1, 6, True, None)]
        assert [(t.environment, t.episode, t.start, len(t)) for t in play.batch()] == [(0, 0, 10, 10), (1, 1, 0, 10)]
        assert json.dumps(play.lost)


def test_only_frames_of_the_simulator_are_shown() -> None:
    with victim_of_two("raising.Raising") as play:
        play.batch()
        detail = play.lost[0]["detail"]
        assert "ebrl/" not in detail and "importlib" not in detail
        assert detail.startswith("Traceback (most recent call last):")
        assert detail.endswith("RuntimeError: the gripper is stuck\n")


@pytest.mark.parametrize(
    ("simulator", "message", "detail"),
    [
        ("unborn.NoisyCleanup", "RuntimeError: no display", "no display"),
        ("unborn.FailedCleanup", "RuntimeError: no display (then AttributeError: ", "no display"),
        ("unborn.Translated", "ValueError: there is no task lift_v7", "KeyError: 'lift_v7'"),
        ("unborn.nothing", "the factory of bad:nothing returned None; expected a Simulator with a `spec`", ""),
        ("unborn.WithoutSpec", "the factory of bad:WithoutSpec returned WithoutSpec; expected a Simulator", ""),
        ("unborn.Misspelt", "bad_envs.unborn has no 'Misspelt'", ""),
        ("asking_at_import.A", "the simulator asked for keyboard input: 'Do you accept the license (y/n)? '", ""),
    ],
)
def test_a_simulator_that_cannot_be_made_ends_the_run_at_once(simulator: str, message: str, detail: str) -> None:
    with Play(order(simulator)) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    name = simulator.split(".")[1]
    assert caught.value.message.startswith(f"bad:{name}: {message}")
    assert detail in caught.value.detail
    assert "Exception ignored" not in caught.value.detail
    assert not play.lost


@pytest.mark.parametrize("num_envs", [2, 4])
def test_as_long_as_half_may_start_one_that_cannot_is_only_lost(tmp_path: Path, num_envs: int) -> None:
    """Although its failure is the first that is heard."""
    with Play(order("unborn.FirstOnly", notes=str(tmp_path), first=num_envs // 2), num_envs=num_envs) as play:
        assert len(play.batch()) == num_envs
        assert len(play.lost) == num_envs // 2
        assert all(lost["message"] == "RuntimeError: the licence server is busy" for lost in play.lost)
        assert all((lost["doing"], lost["restart"]) == ("start", True) for lost in play.lost)
        play.until(lambda: all(state.process.spec for state in play.rollout._environments))


def test_where_more_than_half_cannot_start_the_run_ends(tmp_path: Path) -> None:
    simulator = order("unborn.FirstOnly", notes=str(tmp_path), first=3)
    with Play(simulator, num_envs=4) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message == "bad:FirstOnly: RuntimeError: the licence server is busy"


def test_a_simulator_that_does_not_exist_is_the_users_error() -> None:
    with Play(order("unborn.NotFound")) as play, pytest.raises(SimulatorNotFound) as caught:
        play.batch()
    assert caught.value.message == "no task 'Lyft'"
    assert caught.value.hint == "did you mean 'Lift'?"
    assert caught.value.detail == ""


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        ("WrongType", "observation 'state' from reset(): expected float32 (4,), got float64 (4,)"),
        ("WrongShape", "observation 'state' from reset(): expected float32 (4,), got float32 (14,)"),
        ("WrongKey", "reset() gave no observation 'state'; declared: state"),
        ("NoObservation", "reset() gave an observation of type ndarray; expected Observation"),
        ("NoStep", "the simulation stage yielded tuple; expected Step"),
    ],
)
def test_what_was_not_declared_is_named(simulator: str, message: str) -> None:
    with Play(order(f"misshapen.{simulator}"), settings={"most_restarts": 0}) as play:
        with pytest.raises(SimulatorError) as caught:
            play.batch(3)
        assert caught.value.message == (
            f"bad:{simulator}: fewer than half of 1 environments are alive; the first was given up after: {message}"
        )
        assert [lost["restart"] for lost in play.lost] == [False]


def test_a_stage_that_forgets_actions() -> None:
    simulator = order("counting.Counting", program="half")
    with Play(simulator, chunk=4, settings={"most_restarts": 0}) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message.endswith("the simulation stage ended after 2 of 4 actions")


@pytest.mark.parametrize("in_order", [True, False])
def test_reset_fails_from_the_20th_time_on(in_order: bool) -> None:
    """Bounded restarts, quarantine; the others take over the work."""
    simulator = order("failing_reset.FailingReset", seeds=seeds(1, range(19, 60)), lengths=(2,))
    with Play(simulator, num_envs=3, num_steps=8, settings={"in_order": in_order}) as play:
        play.until(lambda: play.batch() and len(play.rollout.alive) == 2)
        assert [lost["episode"] for lost in play.lost] == [19, 20, 21, 22]
        assert [lost["restart"] for lost in play.lost] == [True, True, True, False]
        assert all(lost["message"] == "OSError: texture file vanished" for lost in play.lost)
        assert all((lost["environment"], lost["step"], lost["doing"]) == (1, 0, "reset") for lost in play.lost)
        last = play.batch()
        assert {trajectory.environment for trajectory in last} == {0, 2}
        assert sum(len(trajectory) for trajectory in last) == 3 * 8


def test_restarts_count_between_finished_episodes_only() -> None:
    """An environment that fails in every other episode is never given up."""
    simulator = order("raising.Raising", at=2, seeds=seeds(0, range(0, 6, 2)), lengths=(3,))
    with Play(simulator, num_steps=3, settings={"most_restarts": 1}) as play:
        play.until(lambda: play.batch() and len(play.lost) == 3)
        assert [lost["restart"] for lost in play.lost] == [True, True, True]


def test_fewer_than_half() -> None:
    simulator = order("raising.Raising", at=3)
    with Play(simulator, num_envs=2, settings={"most_restarts": 1}) as play, pytest.raises(SimulatorError) as caught:
        play.until(lambda: play.batch() is None)
    assert caught.value.message == (
        "bad:Raising: fewer than half of 2 environments are alive; "
        "the first was given up after: RuntimeError: the gripper is stuck"
    )
    assert "in fault" in caught.value.detail


@pytest.mark.parametrize(
    ("simulator", "doing", "step"),
    [("HangingStep", "step", 7), ("HangingNative", "step", 7), ("HangingReset", "reset", 0)],
)
def test_a_hang_is_ended_and_its_stack_shown(simulator: str, doing: str, step: int) -> None:
    with victim_of_two(f"hanging.{simulator}", deadlines=DEADLINES) as play:
        play.until(lambda: play.rollout.slots is not None and all(e.process.spec for e in play.rollout._environments))
        pids = play.rollout.pids()
        play.batch()
        (lost,) = play.lost
        assert lost["message"] == f"no answer to {doing} within 0.8 s"
        assert (lost["environment"], lost["step"], lost["doing"]) == (1, step, doing)
        assert re.search(r'hanging.py", line \d+ in ' + ("fault" if doing == "step" else "reset"), lost["detail"])
        assert not psutil.pid_exists(pids[1])
        assert sum(len(trajectory) for trajectory in play.batch()) == 20


def test_a_hang_at_the_start() -> None:
    deadlines = Deadlines(start_s=1.5)
    simulator = order("hanging.HangingStart")
    with Play(simulator, settings={"deadlines": deadlines}) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message == "bad:HangingStart: no answer to start within 1.5 s"
    assert "in __init__" in caught.value.detail


def test_a_slow_step_within_its_deadline() -> None:
    deadlines = Deadlines(start_s=30.0, reset_s=0.7, step_s=20.0)
    with Play(order("hanging.Slow", step_s=1.2, at=2), settings={"deadlines": deadlines}) as play:
        assert len(play.batch()[0]) == 4
        assert not play.lost


def test_waits_are_event_driven() -> None:
    with Play(order("hanging.Slow", step_s=0.6, at=1), num_envs=6, num_steps=1, cores=tuple(range(6))) as play:
        play.at_rest()
        began_s = time.monotonic()
        play.batch()
        assert 0.6 <= time.monotonic() - began_s < 2.4  # one after the other would take 3.6 s


@pytest.mark.parametrize("forks", [False, True])
def test_killed_from_outside(tmp_path: Path, forks: bool) -> None:
    """Noticed at once, even while something that it forked holds its pipe open, which goes with it."""
    notes = tmp_path / "pid"
    simulator = order("disturbing.Spawning", notes=str(notes), fork=True) if forks else order("counting.Counting")
    with Play(simulator) as play:
        play.at_rest()
        os.kill(play.rollout.pids()[0], signal.SIGKILL)
        began_s = time.monotonic()
        play.until(lambda: play.lost)
        assert time.monotonic() - began_s < 5.0
        assert play.lost[0]["message"] == "environment process was killed by SIGKILL"
        assert play.lost[0]["doing"] == "idle"
        if forks:
            assert _gone(int(notes.read_text()))
        assert len(play.batch()[0]) == 4
        assert not play.episodes


def test_what_a_predecessor_wrote_is_not_blamed_on_its_successor(tmp_path: Path) -> None:
    simulator = order("dying.Exiting", at=1, seeds=seeds(0), log_folder=str(tmp_path / "logs"))
    with Play(simulator) as play:
        play.batch()
        os.kill(play.rollout.pids()[0], signal.SIGKILL)
        play.until(lambda: len(play.lost) == 2)
        assert [lost["detail"] for lost in play.lost] == ["physics engine: out of licenses", ""]
    assert (tmp_path / "logs" / "environment-0.log").read_text() == "physics engine: out of licenses\n"


def test_a_window_in_which_nothing_was_recorded_is_taken_by_another() -> None:
    with Play(order("raising.Raising", at=1, seeds=seeds(0)), num_envs=2, num_steps=5) as play:
        play.at_rest()
        (trajectory,) = play.batch(1)
        assert (trajectory.environment, len(trajectory)) == (1, 5)
        assert [(lost["environment"], lost["step"]) for lost in play.lost] == [(0, 1)]


def test_late_actions_for_a_dead_process_reach_nobody() -> None:
    with Play(order("counting.Counting"), settings={"in_order": True}) as play:
        play.at_rest()
        play.answering = False
        play.rollout.admit(0, 1, 0)
        assert play.requests == [(0,)]
        os.kill(play.rollout.pids()[0], signal.SIGKILL)
        play.until(lambda: play.lost and play.rollout._environments[0].work == "asking")
        assert play.requests == [(0,)]
        play.answer([0])  # meant for the dead one
        play.until(lambda: len(play.requests) == 2)
        slots = play.rollout.slots
        assert slots is not None
        planned = play.actions(int(slots["seed"][0]))
        play.answering = True
        play.answer([0])
        play.until(lambda: play.batches)
        (trajectory,) = play.batches[0]
        assert trajectory.episode == 1
        assert np.array_equal(trajectory.actions[0], planned)


def test_the_seed_in_the_account_is_the_one_that_was_used() -> None:
    with Play(order("raising.Raising"), settings={"seed": 5, "purpose": "play", "numbers": [12]}) as play:
        (trajectory,) = play.batch()
        play.until(lambda: play.batch() and play.lost)
        (lost,) = play.lost
        assert lost["seed"] == reset_seed(5, "play", 12, 0) == shown_seed(trajectory.observations["state"][0])
        assert lost["environment"] == trajectory.environment == 12


def _gone(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE or process.wait(5.0) is None
    except psutil.NoSuchProcess:
        return True
