"""Output whose reader may go away: ``ebrl run ... | head -1``, a terminal that is closed, a disk that is full."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, TextIO


class Output:
    """Writes to `stream` until that fails once; then `closed` is set and everything is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self.closed = False
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:  # the name of a file may be in no encoding
            encoding = self._stream.encoding
            return self.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except OSError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._drop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _drop(self) -> None:
        self.closed = True
        # What is buffered still has to go somewhere when Python ends.
        with suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())
