"""Loaded by every stage worker when it starts."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys

from distributed import Worker

from ebrl.runtime import bridge

LOGS = "EBRL_LOGS"
"""Environment variable: the folder where stage workers write what they print, each in a file of its own."""


CRASH = "EBRL_CRASH"
"""Environment variable: the file where the Python stack goes when a signal such as SIGSEGV ends the worker."""


def dask_setup(worker: Worker) -> None:
    # Ctrl-C in a terminal is for the driver, which ends the workers in order.
    os.setpgid(0, 0)
    _hear_again()
    _end_what_is_left()
    if path := os.environ.get(CRASH):
        faulthandler.enable(open(path, "w"), all_threads=False)  # noqa: SIM115 (open as long as the process)
    if folder := os.environ.get(LOGS):
        _print_to(os.path.join(folder, f"{worker.name}.log"))
    bridge.install(worker)


def _hear_again() -> None:
    """Take SIGINT, which whoever started this process has blocked, but not one that has come before."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, handler)


def _end_what_is_left() -> None:
    """When this process ends, however it ends, end what it started and left in its process group.

    The keeper is no part of that group and sees the end of this process as the end of its input.
    """
    program = ["/bin/sh", "-c", f"read _; kill -s KILL -- -{os.getpid()}"]
    null = subprocess.DEVNULL
    keeper = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)
    assert keeper.stdin is not None
    os.register_at_fork(after_in_child=keeper.stdin.close)  # also holds the pipe, as long as this process lives


def _print_to(path: str) -> None:
    """Send all output of this process to a file: what Python prints, and what libraries in C print."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    log = open(path, "a", buffering=1, errors="backslashreplace")  # noqa: SIM115 (open as long as the process)
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.flush()
        os.dup2(log.fileno(), descriptor)
    sys.stdout = sys.stderr = log
