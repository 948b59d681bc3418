"""Which interpreter a backend's environment processes run in."""

from __future__ import annotations

import sys

import attrs

from ebrl.errors import UsageError
from ebrl.interpreters.pins import Pins
from ebrl.interpreters.store import IsolatedEnvironment


@attrs.define(frozen=True, kw_only=True)
class Interpreter:
    python: str | None = None
    """Path; None is the interpreter that runs this."""
    version: tuple[int, int] = sys.version_info[:2]
    remedy: str = ""
    """What to do when the simulator cannot be imported there."""
    notice: str = ""
    """What the user should know of the environment that is used, or not used."""


def interpreter_of(backend: str) -> Interpreter:
    """That of the environment which `ebrl env create` made for `backend`, otherwise this one.

    Whether the backend can run in this one shows when it is tried there. UsageError where no backend has this name, or
    its environment is broken.
    """
    pins, environment = Pins.of(backend), IsolatedEnvironment(backend)
    create = f"ebrl env create {backend}"
    if fault := environment.fault():
        raise UsageError(f"the environment of {backend} cannot be used: {fault}", hint=create)
    if (marker := environment.marker()) is None:
        half = f"the environment of {backend} is half-built and not used: {create}"
        return Interpreter(
            remedy=create if pins is not None else "", notice=half if environment.folder.is_dir() else ""
        )
    outdated = pins is not None and pins.digest != marker.pins
    notice = f"the pins of {backend} changed since its environment was made: {create}" if outdated else ""
    major, minor = marker.python.split(".")[:2]
    return Interpreter(python=str(environment.python), version=(int(major), int(minor)), remedy=notice, notice=notice)
