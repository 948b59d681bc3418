"""Conformance from outside: the suite of `ebrl.backends.conformance` in the interpreter of a simulator."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from typing import IO

import attrs

from ebrl.backends.conformance import CHECKS, Outcome
from ebrl.runtime.failure import ending
from ebrl.runtime.family import Family, end, leader, of
from ebrl.runtime.order import EnvironmentOrder, start
from ebrl.runtime.process_log import ProcessLog

_LINGER_S = 5.0


def outcomes(order: EnvironmentOrder, *, limit_s: float = 300.0) -> Iterator[Outcome]:
    """Every check as it ends. One that crashes its process, or does not end within `limit_s` seconds, fails with how
    the process ended or where it hangs; the checks after it are not run."""
    reading, writing = os.pipe()
    with (
        contextlib.closing(ProcessLog(None, "conformance")) as log,
        open(reading, "rb", buffering=0) as reply,
        Family() as family,
    ):
        try:
            marked = attrs.evolve(order, family=family.mark)
            process = start("ebrl.backends.conformance.remote", marked, (writing,), log.file, stdin=subprocess.DEVNULL)
        finally:
            os.close(writing)
        head = leader(process.pid)
        with process:
            try:
                yield from _heard(process, reply, log, limit_s)
            finally:
                end(of([head]))


def _heard(process: subprocess.Popen[bytes], reply: IO[bytes], log: ProcessLog, limit_s: float) -> Iterator[Outcome]:
    heard, count = b"", 0
    end_s = time.monotonic() + limit_s
    while True:
        if not select.select([reply], [], [], max(0.0, end_s - time.monotonic()))[0]:
            stack = log.answer(partial(process.send_signal, signal.SIGUSR1))
            yield _broken_off(count, f"no end within {limit_s:g} s", stack)
            return
        if not (part := reply.read(65536)):
            yield _broken_off(count, _how_it_ended(process), log.last_words())
            return
        *lines, heard = (heard + part).split(b"\n")
        for line in lines:
            if not line:
                return
            count, end_s = count + 1, time.monotonic() + limit_s
            yield Outcome(**json.loads(line))


def _broken_off(count: int, message: str, detail: str) -> Outcome:
    """The outcome of the check that ran when `count` had ended."""
    check = CHECKS[min(count, len(CHECKS) - 1)]
    return Outcome(check.name, check.rule, "failed", message, detail=detail)


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_LINGER_S)
    except subprocess.TimeoutExpired:  # a thread of the simulator keeps it
        return "the process broke off and does not end"
    return f"the process {ending(code)}"
