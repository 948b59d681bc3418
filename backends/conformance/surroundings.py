"""What a simulator does to its process beside its work: output, input, signal handlers, working folder.

Standard library only.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any


class Surroundings:
    """The process as it was found, and what happened to it since."""

    def __init__(self) -> None:
        self.printed = ""
        """To standard output, while it was watched."""
        self.asked: str | None = None
        """The first question to the keyboard, empty where it was read without one."""
        self._handlers, self._folder = _handlers(), os.getcwd()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """What is printed in the block does not appear, and reads from standard input find empty lines."""
        with self._output(), self._input():
            yield

    def changed_signals(self) -> list[str]:
        """Names of the signals whose handlers are others now."""
        now = _handlers()
        return [signal.Signals(number).name for number, handler in self._handlers.items() if now[number] != handler]

    def changed_folder(self) -> str | None:
        """The working folder, where it is another one now."""
        return os.getcwd() if os.getcwd() != self._folder else None

    def restore(self) -> None:
        """Handlers and working folder as they were found; a timer that would now strike is off."""
        changed = self.changed_signals()
        if "SIGALRM" in changed:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for name in changed:
            number = signal.Signals[name]
            with contextlib.suppress(ValueError, TypeError):  # not the main thread, or a handler of native code
                signal.signal(number, self._handlers[number])
        os.chdir(self._folder)

    @contextlib.contextmanager
    def _output(self) -> Iterator[None]:
        """Descriptor 1 for native code and what is started, `sys.stdout` for Python, both into one file."""
        _flush()
        kept = os.dup(1)
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 1)
            paper = os.fdopen(os.dup(file.fileno()), "w", buffering=1, encoding="utf-8", errors="replace")
            try:
                with contextlib.redirect_stdout(paper):
                    yield
            finally:
                paper.close()
                _flush()
                os.dup2(kept, 1)
                os.close(kept)
                file.seek(0)
                self.printed += file.read().decode("utf-8", "replace").strip()

    @contextlib.contextmanager
    def _input(self) -> Iterator[None]:
        def ask(prompt: object = "") -> str:
            self.asked = str(prompt) if self.asked is None else self.asked
            return ""

        kept, asked, stdin = _duplicate(0), builtins.input, sys.stdin
        with tempfile.TemporaryFile() as native, tempfile.TemporaryFile("w+") as lines:
            native.write(b"\n" * 4096)
            native.seek(0)
            lines.write("\n" * 4096)
            lines.seek(0)
            os.dup2(native.fileno(), 0)
            builtins.input, sys.stdin = ask, lines
            try:
                yield
            finally:
                builtins.input, sys.stdin = asked, stdin
                if self.asked is None and (os.lseek(0, 0, os.SEEK_CUR) or lines.tell()):
                    self.asked = ""
                if kept is None:
                    os.close(0)
                else:
                    os.dup2(kept, 0)
                    os.close(kept)


def _duplicate(descriptor: int) -> int | None:
    try:
        return os.dup(descriptor)
    except OSError:  # closed by whoever started this process
        return None


def _handlers() -> dict[int, Any]:
    return {int(number): signal.getsignal(number) for number in signal.valid_signals()}


def _flush() -> None:
    sys.stdout.flush()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).fflush(None)  # what native code printed lies in a buffer of its own
