"""Ctrl-C, from the first moment of the program to its last: one line and exit code 130, never a traceback.

While a run goes on, `ebrl.runtime.signals` listens instead. Standard library only: nothing else is imported yet.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_EXIT_CODE = 130


@contextmanager
def in_one_line() -> Iterator[None]:
    """Ctrl-C says so and raises KeyboardInterrupt within the block; the second one ends the process at once, and so
    does any behind the block, where Python and Dask tidy up."""
    # At its very end Python gives the signal its default action back, and the process would die by it.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGINT, _first)
    try:
        yield
    except KeyboardInterrupt:
        _leave()
    finally:
        signal.signal(signal.SIGINT, _leave)
        # Python also ends itself by the signal where a KeyboardInterrupt has left an `exec` of text, unless a later one
        # ends well.
        exec("")


def _first(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _leave)
    os.write(2, b"interrupted\n")
    raise KeyboardInterrupt


def _leave(*_: object) -> None:
    os._exit(_EXIT_CODE)
