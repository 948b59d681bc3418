"""The warm process of a rollout: it has imported the simulator, and environments are forked from it.

This is the worker's side; `warm_child` runs in the process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from functools import partial

import psutil

from ebrl.runtime import family, wire
from ebrl.runtime.failure import KILLED, ending
from ebrl.runtime.order import EnvironmentOrder, start
from ebrl.runtime.process_log import ProcessLog

_FORK_S = 10.0  # a fork takes milliseconds; who does not answer at all is given up
_LOOK_S = 0.005
_REAP_S = 0.5  # a child that has ended is cleared away within milliseconds


class WarmProcess:
    """All methods must be called from the thread that made it. `state` is warming, then ready, then gone.

    It is gone at once where forking would be unsafe; `warm_child` says when that is.
    """

    def __init__(self, order: EnvironmentOrder) -> None:
        self.state = "warming"
        self._unresponsive = self._silent = False
        self._ending = ""
        self._alive: dict[int, ForkedProcess] = {}
        self._forked: list[ForkedProcess] = []
        self._log = ProcessLog(order.log_folder, "warm")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        try:
            self._process = start(
                "ebrl.runtime.warm_child", order, (theirs.fileno(),), self._log.file, stdin=subprocess.DEVNULL
            )
        except BaseException:
            self._socket.close()
            self._log.close()
            raise
        finally:
            theirs.close()
        self._leader = family.leader(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """Readable when `receive` has something to do."""
        return self._socket.fileno()

    def receive(self) -> None:
        """Take in what the process has said, without waiting."""
        while self.state != "gone":
            try:
                said = self._socket.recv(wire.WARM.size)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if not said:
                self.state = "gone"
                return
            self._silent = False
            kind, pid, code = wire.WARM.unpack(said)
            if kind == wire.WARMED:
                self.state = "ready"
            elif kind == wire.FORKED:
                self._alive[pid] = process = ForkedProcess(self, pid)
                self._forked.append(process)
            else:
                self._alive.pop(pid).code = code

    def fork(self, memory: int, reply: int, commands: int, log: int) -> ForkedProcess | None:
        """A new environment process that uses these descriptors; None where there is none to be had any more."""
        if self.state != "ready":
            return None
        try:
            socket.send_fds(self._socket, [b"fork"], [memory, reply, commands, log])
        except OSError:
            self.state = "gone"
            return None
        end_s = time.monotonic() + _FORK_S
        while not self._forked:
            self.receive()
            if self.state == "gone":
                return None
            if not self._forked and not self.wait(end_s - time.monotonic()):
                self._kill()  # what it still forks must not come to life beside its successor
                self.state, self._unresponsive = "gone", True
                return None
        return self._forked.pop()

    def ending(self) -> str:
        """How it ended by itself, as what follows its name."""
        if self._unresponsive:
            return f"did not fork within {_FORK_S:g} s and was ended"
        if not self._ending:
            try:
                self._ending = ending(self._process.wait(1.0))
            except subprocess.TimeoutExpired:
                self._ending = "broke off"
        return self._ending

    @property
    def hint(self) -> str:
        """What may have ended it."""
        return KILLED if not self._unresponsive and self._process.poll() == -signal.SIGKILL else ""

    def reaps(self) -> bool:
        """Whether it clears its children away; one that once did not, while it had said nothing, hangs."""
        if not self._silent:
            self._silent = not self.wait(_REAP_S)
        return not self._silent

    def last_words(self) -> str:
        return self._log.last_words()

    def trim_log(self) -> None:
        if not self._log.file.closed:
            self._log.trim()

    def wait(self, timeout_s: float) -> bool:
        """Whether the process says something within `timeout_s`."""
        if self.state == "gone":
            time.sleep(min(timeout_s, _LOOK_S))
            return False
        return bool(select.select([self._socket], [], [], max(0.0, timeout_s))[0])

    def dump_stack(self) -> str:
        """Where it hangs, and what it may have forked to try: one after the other, as both write into one file."""
        return "\n".join(self._log.answer(partial(_ask, pid)) for pid in [self.pid, *self._trying()])

    def _trying(self) -> list[int]:
        """Its children but for environments, which have sessions of their own."""
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            children = [child.pid for child in psutil.Process(self.pid).children()]
            return [pid for pid in children if os.getsid(pid) == self.pid]
        return []

    def close(self) -> None:
        """End it, and all that was forked from it. Safe to call twice."""
        self.state = "gone"
        if self._socket.fileno() < 0:
            return
        self._socket.close()
        self._kill()
        self._process.wait()
        self._log.close()

    def _kill(self) -> None:
        family.end(family.of([self._leader]))


class ForkedProcess:
    """One environment process, a child of the warm one: as much of `subprocess.Popen` as is needed."""

    def __init__(self, warm: WarmProcess, pid: int) -> None:
        self._warm = warm
        self.pid = pid
        self._process = family.leader(pid)
        self.code: int | None = None
        """The exit code, negative for a signal. Once it is known, the system may give `pid` to another process."""
        self.orphaned = False
        """It ended with its warm process."""

    def poll(self) -> int | None:
        if self.code is None:
            self._warm.receive()
        if self.code is None and self._warm.state == "gone" and not self._lives():
            self.code, self.orphaned = -signal.SIGKILL, True
        return self.code

    def wait(self, timeout: float) -> int:
        """The exit code; -SIGKILL where a warm process that hangs does not tell it. TimeoutExpired while it lives."""
        end_s = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end_s:
                raise subprocess.TimeoutExpired("environment", timeout)
            if self._lives():
                self._warm.wait(_LOOK_S)
            elif self._warm.state != "gone" and not self._warm.reaps():
                self.code = -signal.SIGKILL
        assert self.code is not None
        return self.code

    def _lives(self) -> bool:
        return self._process is not None and family.runs(self._process)


def _ask(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
