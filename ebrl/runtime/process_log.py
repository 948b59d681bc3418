"""What a process prints, kept in a file: it may say why the process ended, or where it hangs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

_LAST_WORDS = 4000  # bytes that are shown at most
_LONGEST = 16 << 20  # bytes of a file
_HEAD = _TAIL = 4 << 20  # bytes that stay of one that was longer


class ProcessLog:
    """What was in the file before belongs to a predecessor and is not shown.

    Its process writes to the file itself, always at the end: so the file can be made shorter under its hands.
    """

    def __init__(self, folder: str | None, name: str) -> None:
        """Without a folder the file has no name."""
        self.file = _open(folder, name)
        self._born_at = self._size()
        self._left_out = 0

    def last_words(self) -> str:
        """What the process said last."""
        return self._said(self._born_at)

    def answer(self, ask: Callable[[], Any]) -> str:
        """What the process writes when it is asked, at most half a second later."""
        before = seen = self._size()
        ask()
        for _ in range(50):
            time.sleep(0.01)
            size = self._size()
            if size == seen > before:  # written to its end
                break
            seen = size
        return self._said(before)

    def trim(self) -> None:
        """Leave out the middle where the file has become too long; to be called now and then. What is written
        meanwhile may be lost."""
        size = self._size()
        if size <= _LONGEST:
            return
        descriptor, rest = self.file.fileno(), size - _TAIL
        self._left_out += rest - _HEAD
        tail = f"\n[ebrl left out {self._left_out >> 20} MiB here]\n".encode() + os.pread(descriptor, _TAIL, rest)
        with contextlib.suppress(OSError):  # the disk is full
            os.ftruncate(descriptor, _HEAD)
            os.write(descriptor, tail)
        if self._born_at > _HEAD:
            self._born_at = _HEAD + len(tail) - min(size - self._born_at, len(tail))

    def close(self) -> None:
        self.file.close()

    def _said(self, since: int) -> str:
        size = self._size()
        start = max(since, size - _LAST_WORDS)
        lines = os.pread(self.file.fileno(), size - start, start).decode(errors="replace").splitlines()
        # The fault handler lists every native module that is loaded.
        return "\n".join(line for line in lines if not line.startswith("Extension modules:")).strip()

    def _size(self) -> int:
        return os.fstat(self.file.fileno()).st_size


def _open(folder: str | None, name: str) -> IO[bytes]:
    if folder is None:
        return _appending(tempfile.TemporaryFile())
    Path(folder).mkdir(parents=True, exist_ok=True)
    return open(Path(folder) / f"{name}.log", "ab+")


def _appending(file: IO[bytes]) -> IO[bytes]:
    """Without a name the mode is ours to set."""
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return file
