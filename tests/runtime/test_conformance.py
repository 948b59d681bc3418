"""The suite in a process of its own."""

from __future__ import annotations

import attrs

from ebrl.backends.conformance import CHECKS
from ebrl.runtime.conformance import outcomes
from ebrl.runtime.order import EnvironmentOrder

from .playing import order


def failures(simulator: EnvironmentOrder, limit_s: float = 60.0) -> dict[str, str]:
    return {found.check: found.message for found in outcomes(simulator, limit_s=limit_s) if found.state == "failed"}


def test_every_check_answers() -> None:
    found = list(outcomes(order("counting.Counting")))
    assert [outcome.check for outcome in found] == [check.name for check in CHECKS]
    # Its observation shows its seed and adds up whatever it is given.
    assert {outcome.check for outcome in found if outcome.state == "skipped"} == {"time-limit", "clipping", "render"}
    assert not [outcome for outcome in found if outcome.state == "failed"]


def test_an_installed_adapter() -> None:
    simulator = attrs.evolve(
        order("counting.Counting", step_s=0, reset_s=0, horizon=20),
        name="emulated:constant",
        factory={"module": "ebrl.backends.simulators.emulated", "name": "emulated"},
        target="constant",
    )
    assert failures(simulator) == {}


def test_faults_are_named() -> None:
    assert failures(order("misshapen.WrongType"))["reset"] == (
        "observation 'state' from reset(): expected float32 (4,), got float64 (4,)"
    )
    assert set(failures(order("disturbing.Printing"))) == {"standard-output"}
    assert "signal-handlers" in failures(order("disturbing.Alarming"))
    assert failures(order("misshapen.ReusedArray"))["own-arrays"] == (
        "observation 'state' of reset() shares its memory with the next one"
    )
    assert failures(order("unborn.NoisyCleanup")) == {"making": "RuntimeError: no display"}
    assert failures(order("asking_at_import.AskingAtImport")) == {
        "standard-input": "it reads from standard input: 'Do you accept the license (y/n)? '"
    }


def test_a_crash_is_told_with_its_check() -> None:
    assert failures(order("dying.Segfaulting", at=1)) == {"step": "the process was killed by SIGSEGV"}
    assert failures(order("dying.Exiting", at=1)) == {"step": "the process exited with code 1"}


def test_a_hang_is_told_with_its_stack() -> None:
    *_, last = outcomes(order("hanging.HangingReset"), limit_s=3.0)
    assert (last.check, last.state, last.message) == ("reset", "failed", "no end within 3 s")
    assert "in reset" in last.detail
