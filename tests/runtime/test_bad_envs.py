"""Every fault of `tests/bad_envs` costs its own trajectory, or nothing, or ends the run with its message.

How the messages come about, restarts and quarantine are in `test_rollout_faults.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ebrl.errors import SimulatorError
from ebrl.graph.items import Trajectory
from ebrl.runtime.rollout import Deadlines
from ebrl.runtime.seeding import reset_seed

from .playing import Play, order, same

DEADLINES = Deadlines(start_s=60.0, reset_s=2.0, step_s=2.0)
VICTIM = 1
"""The environment with the fault, of two; in its first episode only."""


def play(simulator: str, **options: Any) -> Play:
    """Two environments of which results do not depend on timing."""
    settings = {"in_order": True, "deadlines": DEADLINES}
    return Play(order(simulator, **options), num_envs=2, num_steps=10, settings=settings)


def of(trajectories: list[Trajectory], environment: int) -> list[Trajectory]:
    return [trajectory for trajectory in trajectories if trajectory.environment == environment]


@pytest.fixture(scope="module")
def faultless() -> Iterator[list[Trajectory]]:
    with play("counting.Counting", lengths=(8, 14)) as sound:
        yield [trajectory for _ in range(3) for trajectory in sound.batch()]


ONE_TRAJECTORY = {
    "raises at step 7": ("raising.Raising", "step", "RuntimeError: the gripper is stuck"),
    "exits": ("dying.Exiting", "step", "environment process exited with code 1"),
    "segfaults": ("dying.Segfaulting", "step", "environment process was killed by SIGSEGV"),
    "sleeps for ever in reset": ("hanging.HangingReset", "reset", "no answer to reset within 2 s"),
    "sleeps for ever in step": ("hanging.HangingStep", "step", "no answer to step within 2 s"),
    "NaN in an observation": (
        "misshapen.NaNObservation", "step", "observation 'state' from step() is nan at index (2,)",
    ),
    "NaN in a reward": ("misshapen.NaNReward", "step", "the reward is nan"),
    "float64": (
        "misshapen.LateType", "step", "observation 'state' from step(): expected float32 (4,), got float64 (4,)",
    ),
    "float64 that float32 cannot hold": (
        "declaring.Double", "step", "observation 'state' from step() holds 1e+300, beyond float32",
    ),
    "reward that float32 cannot hold": ("misshapen.LateHuge", "step", "the reward is 1e+39, beyond float32"),
    "text for a flag": ("misshapen.LateFlag", "step", "terminated is 'no'; expected True or False"),
    "array for success": (
        "misshapen.LateSuccess", "step", "success is ndarray (2,); expected True, False or None",
    ),
    "text for success": ("misshapen.LateWord", "step", "success is 'no'; expected True, False or None"),
    "shape": (
        "misshapen.LateShape", "step", "observation 'state' from step(): expected float32 (4,), got float32 (14,)",
    ),
    "key": ("misshapen.LateKey", "step", "step() gave no observation 'state'; declared: state"),
    "None for an observation": (
        "misshapen.LateNothing", "step", "step() gave an observation of type None; expected Observation",
    ),
    "None for a reward": ("misshapen.NoReward", "step", "the reward is None; expected a number"),
    "None for a step": ("misshapen.LateNoStep", "step", "the simulation stage yielded None; expected Step"),
    "writes to the pipe of its replies": (
        "disturbing.Babbling", "step", "environment process answered what is no reply: b'Simulation time: 0.0'",
    ),
    "calls input()": (
        "disturbing.Asking", "step", "the simulator asked for keyboard input: 'Press Enter to go on'",
    ),
    "reset raises": ("failing_reset.FailingReset", "reset", "OSError: texture file vanished"),
}  # fmt: skip


@pytest.mark.parametrize("fault", ONE_TRAJECTORY)
def test_a_fault_costs_its_own_trajectory(fault: str, faultless: list[Trajectory]) -> None:
    simulator, doing, message = ONE_TRAJECTORY[fault]
    seed = reset_seed(0, "simulate", VICTIM, 0)
    with play(simulator, lengths=(8, 14), seeds=[seed]) as broken:
        batches = [trajectory for _ in range(3) for trajectory in broken.batch()]
        (lost,) = broken.lost
    assert (lost["message"], lost["doing"]) == (message, doing)
    assert (lost["environment"], lost["episode"], lost["step"], lost["seed"]) == (
        VICTIM, 0, 7 if doing == "step" else 0, seed,
    )  # fmt: skip
    if simulator != "declaring.Double":
        assert same(of(batches, 0), of(faultless, 0))
    first, *later = of(batches, VICTIM)
    if doing == "step":
        assert (first.episode, len(first), first.truncated, first.terminated) == (0, 6, True, False)
    else:
        later = of(batches, VICTIM)
    # The replacement goes on with the next episode, and plays it as if nothing had happened.
    assert {trajectory.episode for trajectory in later} >= {1, 2}
    known = {(other.episode, other.start): other for other in of(faultless, VICTIM)}
    for trajectory in later if simulator != "declaring.Double" else ():
        twin = known.get((trajectory.episode, trajectory.start))
        if twin is not None and len(twin) == len(trajectory):
            assert same([trajectory], [twin])


NOTHING = {
    "prints to standard output": ("disturbing.Printing", {}),
    "changes signal handlers": ("disturbing.Alarming", {}),
    "spawns threads": ("disturbing.Threading", {}),
    "returns the same array": ("misshapen.ReusedArray", {}),
    "sleeps for ever in close": ("hanging.HangingClose", {}),
    "slow reset": ("hanging.SlowReset", {"reset_s": 0.5}),
    "slow step": ("hanging.Slow", {"step_s": 0.5}),
    "leaks": ("leaking.Leaking", {}),
    "forks, and both come back": ("offspring.Returning", {}),
    "prints to a full disk": ("offspring.FullDisk", {}),
    "declares as numpy does": ("declaring.Numpy", {}),
}


@pytest.mark.parametrize("liberty", NOTHING)
def test_a_liberty_costs_nothing(liberty: str, faultless: list[Trajectory]) -> None:
    simulator, options = NOTHING[liberty]
    with play(simulator, lengths=(8, 14), **options) as free:
        batches = [trajectory for _ in range(3) for trajectory in free.batch()]
        assert not free.lost
    assert same(batches, faultless)


DIFFERENT = {
    "shape": "observation 'state': the first environment declared float32 (4,), this one float32 (1,)",
    "type": "observation 'state': the first environment declared float32 (4,), this one float64 (4,)",
    "key": "observation 'state': the first environment declared float32 (4,), this one nothing",
    "action": "the action: the first environment declared float32 (1,), this one float32 (3,)",
    "range": "the action: its low differs from that of the first environment",
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_all_environments_must_declare_the_same(what: str, tmp_path: Path) -> None:
    simulator = order("declaring.Differing", notes=str(tmp_path), what=what)
    with Play(simulator, num_envs=2, settings={"most_restarts": 0}) as play:
        assert len(play.batch()) == 2
        play.until(lambda: play.lost)
        assert [(lost["doing"], lost["message"]) for lost in play.lost] == [("start", DIFFERENT[what])]


ODD = {
    "no observation": "spec.observation declares nothing; expected at least one key with its Space",
    "number as key": "spec.observation has the key 1; expected text",
    "tuple as space": "spec.observation['state'] is tuple; expected ebrl.Space",
    "no action": "spec.action is float32 (0,); expected at least one number",
    "text as action": "spec.action is str (); expected at least one number",
    "shape": "ValueError: a Space has the shape 4; expected a tuple of sizes, such as (4,)",
    "negative shape": "ValueError: a Space has the shape (-4,); expected a tuple of sizes, such as (4,)",
    "type": "ValueError: a Space has the dtype 'float31'; expected a kind of float, int, bool, or str",
    "objects": "ValueError: a Space has the dtype 'object'; expected a kind of float, int, bool, or str",
}


@pytest.mark.parametrize("what", ODD)
def test_what_nobody_can_work_with_is_named(what: str) -> None:
    with Play(order("declaring.Odd", what=what)) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message == f"bad:Odd: {ODD[what]}"


LARGE = {
    "image": ("observation 'state', float32 (1000000000, 1000000000)", 4 * 10**18),
    "overflow": ("observation 'state', float64 (10000000000, 10000000000)", 8 * 10**20),
    "action": ("the field 'actions', float32 (3, 1000000000000000)", 12 * 10**15),
}


@pytest.mark.parametrize("what", LARGE)
def test_what_no_memory_holds_is_named_with_its_size(what: str) -> None:
    field, size = LARGE[what]
    with Play(order("declaring.Large", what=what), chunk=3) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message.startswith(f"bad:Large: {field}, is too large: {size:,} bytes per environment (1 of ")
    assert caught.value.where == "simulate.env"


def test_many_that_are_too_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebrl.runtime.slots._memory_bytes", lambda: 2_000)
    with Play(order("counting.Counting"), num_envs=64) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message == (
        "bad:Counting: observation 'state', float32 (4,), is too large: 16 bytes per environment (64 of them), and "
        "this machine has 0 MiB"
    )


FROM_THE_FIRST_MOMENT = {
    "factory returns None": (
        "unborn.nothing",
        "bad:nothing: the factory of bad:nothing returned None; "
        "expected a Simulator with a `spec` of type SimulatorSpec",
    ),
    "__init__ and __del__ raise": ("unborn.NoisyCleanup", "bad:NoisyCleanup: RuntimeError: no display"),
    "calls input() at import": (
        "asking_at_import.AskingAtImport",
        "bad:AskingAtImport: the simulator asked for keyboard input: 'Do you accept the license (y/n)? '",
    ),
}


@pytest.mark.parametrize("fault", FROM_THE_FIRST_MOMENT)
def test_a_fault_from_the_first_moment_ends_the_run(fault: str) -> None:
    simulator, message = FROM_THE_FIRST_MOMENT[fault]
    with play(simulator) as unborn, pytest.raises(SimulatorError) as caught:
        unborn.batch()
    assert caught.value.message == message
    assert caught.value.where == "simulate.env"
    assert "Exception ignored" not in caught.value.render()
