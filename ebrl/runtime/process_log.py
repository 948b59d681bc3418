"""What a process prints, kept in a file: it may say why the process ended, or where it hangs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

_LAST_WORDS = 4000  # bytes that are shown at most


class ProcessLog:
    """What was in the file before belongs to a predecessor and is not shown."""

    def __init__(self, folder: str | None, name: str) -> None:
        """Without a folder the file has no name."""
        self.file = _open(folder, name)
        self._born_at = self._size()

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
        return tempfile.TemporaryFile()
    Path(folder).mkdir(parents=True, exist_ok=True)
    return open(Path(folder) / f"{name}.log", "ab+")
