"""Loaded by every stage worker when it starts."""

from __future__ import annotations

import os
import sys

from distributed import Worker

from ebrl.runtime import bridge

LOGS = "EBRL_LOGS"
"""Environment variable: the folder where stage workers write what they print, each in a file of its own."""


def dask_setup(worker: Worker) -> None:
    # Ctrl-C in a terminal is for the driver, which ends the workers in order.
    os.setpgid(0, 0)
    if folder := os.environ.get(LOGS):
        _print_to(os.path.join(folder, f"{worker.name}.log"))
    bridge.install(worker)


def _print_to(path: str) -> None:
    """Send all output of this process to a file: what Python prints, and what libraries in C print."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    log = open(path, "a", buffering=1, errors="backslashreplace")  # noqa: SIM115 (open as long as the process)
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.flush()
        os.dup2(log.fileno(), descriptor)
    sys.stdout = sys.stderr = log
