"""Signals that end a run in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

import distributed.gc


@contextmanager
def ending_in_order(wishes: threading.Event) -> Iterator[None]:
    """SIGTERM (a batch system's word) and SIGHUP (a closed terminal) act as Ctrl-C within the block, on the main
    thread; `wishes` is set by each.

    Python drops and prints what is raised in a callback of the garbage collector, and Dask has one: there
    the wish is only noted. The driver looks at the note.
    """

    def note(number: int, frame: FrameType | None) -> None:
        wishes.set()
        while frame is not None:
            if frame.f_code.co_filename == distributed.gc.__file__:
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                stack.callback(signal.signal, number, signal.signal(number, note))
        yield
