"""A minimal event loop for one engine thread: watched descriptors and calls from other threads."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any


class Loop:
    """Callbacks run in the thread that calls `poll`; only `call` may be used from other threads."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._closing, self._closed = threading.Lock(), False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self.watch(self._wake_read, self._run_calls)

    def watch(self, source: Any, callback: Callable[[], None]) -> None:
        """Run `callback` whenever `source` (a descriptor or an object with fileno) is readable."""
        self._selector.register(source, selectors.EVENT_READ, callback)

    def forget(self, source: Any) -> None:
        if not self._closed:
            self._selector.unregister(source)

    def call(self, function: Callable[[], None]) -> None:
        """Run `function` soon in the loop's thread."""
        self._calls.put(function)
        with self._closing, contextlib.suppress(BlockingIOError):  # a full pipe wakes as well as a longer one
            if not self._closed:  # else nobody is left to run it, and the descriptor may be another's
                os.write(self._wake_write, b"x")

    def poll(self, timeout_s: float | None) -> None:
        """Wait for events, at most `timeout_s`, and run their callbacks."""
        for key, _ in self._selector.select(timeout_s):
            if self._selector.get_map().get(key.fd) is key:  # else another callback has just forgotten it
                key.data()

    def close(self) -> None:
        """Nothing is called from now on. Safe to call twice."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._selector.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _run_calls(self) -> None:
        os.read(self._wake_read, 4096)
        while True:
            try:
                function = self._calls.get_nowait()
            except Empty:
                return
            function()
