"""Every error a user can meet: one sentence that says what is wrong, where, why, and what to do.

An error carries four optional parts beside its message: `where` (``stage.port``), `place`
(``file:line``), `detail` (a cause or a traceback worth reading) and `hint` (the way out). The command
line prints them with `EbrlError.render` and leaves with `exit_code`. Standard library only:
environment processes import this.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a workflow, found before anything runs."""

    rule: str
    """Name of the graph rule, for example ``type-mismatch``."""
    where: str
    """``stage.port`` or the name of a stage, edge or parameter."""
    message: str
    """One sentence."""
    place: str = ""
    """``file:line`` of the declaration or call that the user must change."""
    hint: str = ""

    def render(self) -> str:
        lines = [f"error[{self.rule}] {self.where}: {self.message}"]
        if self.place:
            lines.append(f"  at {self.place}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class EbrlError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1

    def __init__(self, message: str, *, where: str = "", place: str = "", detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.place = place
        self.detail = detail
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process borders; the default drops keyword arguments.
        return (_rebuild, (type(self), dict(self.__dict__)))

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        lines = [f"error: {self.where + ': ' if self.where else ''}{self.message}"]
        if self.place:
            lines.append(f"  at {self.place}")
        if self.detail:
            lines.extend("  | " + line for line in self.detail.rstrip().splitlines())
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def _rebuild(cls: type[EbrlError], state: dict[str, object]) -> EbrlError:
    error = cls.__new__(cls)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


class UsageError(EbrlError):
    """The user asked for something that does not exist or does not fit; nothing was started."""

    exit_code = 2


class WorkflowError(UsageError):
    """The workflow graph breaks one or more rules."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(f"{len(findings)} problem(s) in the workflow")
        self.findings = findings

    def render(self) -> str:
        return "\n".join(finding.render() for finding in self.findings)


class PlanError(UsageError):
    """No plan exists for this workflow on these machines."""


class SimulatorError(EbrlError):
    """A simulator could not be created, or too many of its environments are lost."""


class SimulatorNotFound(UsageError):
    """A simulator or one of its tasks does not exist in this interpreter."""


class StageError(EbrlError):
    """The code of a stage raised; `detail` holds its traceback."""


class CheckpointError(UsageError):
    """A checkpoint is missing, damaged, or belongs to another workflow."""


class Interrupted(EbrlError):
    """The user stopped the run (Ctrl-C)."""

    exit_code = 130


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a name that does not exist: the nearest known ones, else all of them (20 at most)."""
    names = sorted(known)
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(by_lower[match]) for match in close) + "?"
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"known: {shown}" if names else "none is known here"
