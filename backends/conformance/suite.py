"""Runs the checks on a simulator. Standard library only."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebrl.backends.conformance.checks import CHECKS, Check
from ebrl.backends.conformance.subject import NotApplicable, Subject, Violation
from ebrl.backends.protocols import Simulator
from ebrl.errors import EbrlError
from ebrl.runtime.failure import ContractError

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Outcome:
    """How one check ended."""

    check: str
    """Its name, such as ``own-arrays``."""
    rule: str
    """What it demands, as a sentence."""
    state: str
    """``passed``, ``failed``, or ``skipped`` where it says nothing about this simulator."""
    message: str = ""
    """What is wrong, or why it was skipped, as a sentence."""
    hint: str = ""
    """The way out."""
    detail: str = ""
    """The traceback of what the simulator raised."""

    def __str__(self) -> str:
        text = f"{self.check}: {self.message or self.rule}"
        return f"{text} (hint: {self.hint})" if self.hint else text


def check_simulator(
    make: Callable[[], Simulator], *, checks: Sequence[Check] = CHECKS, most_steps: int = 500
) -> list[Outcome]:
    """What is wrong with the simulators that `make` makes; an empty list means nothing.

    most_steps: episodes with a longer time limit are not played to their end.
    """
    return [outcome for outcome in outcomes(make, checks=checks, most_steps=most_steps) if outcome.state == FAILED]


def outcomes(
    make: Callable[[], Simulator], *, checks: Sequence[Check] = CHECKS, most_steps: int = 500
) -> Iterator[Outcome]:
    """Run one check after the other; a simulator that cannot be made gives one failure, ``making``, and ends the suite.

    One simulator serves most checks; a few make a second one, so two live side by side.
    """
    subject = Subject(make, most_steps)
    try:
        made = _run(Check(making), subject)
        if made.state == FAILED:
            yield made
            return
        for check in checks:
            yield _run(check, subject)
    finally:
        subject.close_all()


def making(subject: Subject) -> None:
    """The factory makes a simulator."""
    subject.another()


def _run(check: Check, subject: Subject) -> Outcome:
    try:
        check(subject)
    except NotApplicable as reason:
        return Outcome(check.name, check.rule, SKIPPED, str(reason))
    except Exception as error:
        return _failure(check, error)
    return Outcome(check.name, check.rule, PASSED)


def _failure(check: Check, error: Exception) -> Outcome:
    if isinstance(error, ContractError):
        return Outcome(check.name, check.rule, FAILED, str(error))
    if isinstance(error, Violation):
        return Outcome(check.name, check.rule, FAILED, error.message, error.hint)
    if isinstance(error, EbrlError):
        return Outcome(check.name, check.rule, FAILED, error.message, error.hint, error.detail)
    message = f"{type(error).__name__}: {error}"
    return Outcome(check.name, check.rule, FAILED, message, detail=traceback.format_exc())
