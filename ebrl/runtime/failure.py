"""What went wrong in an environment process, as plain data. Standard library only."""

from __future__ import annotations

import importlib
import signal
import sys
import traceback
from typing import Any

from ebrl.errors import EbrlError

KILLED = "somebody killed it, or the kernel did for want of memory: see the kernel's log (dmesg)"
"""The hint where a process was ended by SIGKILL."""

_LONGEST_MESSAGE, _LONGEST = 2_000, 16_000  # characters of an exception, and of its traceback, that travel
_MOST_LINKS = 50  # exceptions that led to one another


class ContractError(Exception):
    """The simulator gave something else than it declared. `hint`: what it should have done."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def describe(error: BaseException) -> dict[str, Any]:
    """The exception as plain data. Of what led to it, the first comes first."""
    if isinstance(error, EbrlError):
        return _described(error.message, error.detail or "", error.hint or "", error.exit_code)
    if isinstance(error, ContractError):
        return _described(str(error), "\n".join(_notes(error)), error.hint)
    _cut(error)
    first = error
    # What was raised on purpose (`raise ... from`) speaks for itself; what went wrong in a clean-up does not.
    while first.__context__ is not None and not first.__suppress_context__:
        first = first.__context__
    message = text_of(error) if first is error else f"{text_of(first)} (then {text_of(error)})"
    report = traceback.TracebackException.from_exception(error)
    _leave_out_own_frames(report)
    return _described(message, "".join(report.format())[-_LONGEST:])


def _described(message: str, detail: str, hint: str = "", exit_code: int = 1) -> dict[str, Any]:
    return {
        "message": printable(message[:_LONGEST_MESSAGE]),
        "detail": printable(detail[:_LONGEST]),
        "hint": printable(hint[:_LONGEST_MESSAGE]),
        "exit_code": exit_code,
    }


def printable(text: str) -> str:
    """`text` with escapes for what neither UTF-8 nor a terminal should get: halves of characters, as names of files
    may hold, and control characters."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode() for sign in text
    )


def _cut(error: BaseException) -> None:
    """End the chain behind the exception where it returns to itself, and after `_MOST_LINKS`."""
    seen, link = {id(error)}, error
    while (former := link.__context__) is not None:
        if id(former) in seen or len(seen) >= _MOST_LINKS:
            link.__context__ = None
            return
        seen.add(id(former))
        link = former


def text_of(error: BaseException) -> str:
    """Type and message."""
    name = type(error).__name__
    try:
        return f"{name}: {error}" if str(error) else name
    except Exception:
        return f"{name} (and its message raises)"


def _signal_name(number: int) -> str:
    """``SIGSEGV``, or ``signal 35`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"signal {number}"


def ending(code: int) -> str:
    """How a process with this exit code ended, as what follows its name."""
    return f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def _leave_out_own_frames(report: traceback.TracebackException) -> None:
    """Only frames of the user and of the simulator help, unless there are none."""
    own = {importlib.__file__, "<frozen importlib._bootstrap>"}
    for name, module in sys.modules.items():
        if name == "__main__" or name.partition(".")[0] == "ebrl":
            own.add(getattr(module, "__file__", None) or name)
    link: traceback.TracebackException | None = report
    while link is not None:
        kept = [frame for frame in link.stack if frame.filename not in own]
        link.stack = traceback.StackSummary.from_list(kept or link.stack)
        link = link.__cause__ or link.__context__
