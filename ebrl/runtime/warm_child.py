"""The warm process: it imports the simulator once, and forks one environment after the other on request.
Standard library and numpy only, Python 3.8 on; Linux.

An adapter may say, as attributes of its class or module:

- ``warm()`` imports what takes long. It must start no thread and no renderer.
- ``fork_safe = False``: nothing is forked; every environment is spawned.

and ``fork_safe = True`` both there and as an attribute of an instance: a simulator made with its options may even be
built before the fork, and be inherited. That is tried in a child first, since one that draws must not be built here.

Forking is given up where other threads exist: they would be missing in the child, with the locks they hold.
"""

from __future__ import annotations

import array
import contextlib
import gc
import os
import random
import select
import signal
import socket
import traceback
from typing import Any

import numpy as np

from ebrl.runtime import wire
from ebrl.runtime.birth import Birth
from ebrl.runtime.child import die_first, die_with_parent, live, seclude


def main(order: dict[str, Any], channel: int, parent: int) -> None:
    """Warm up, say so, and fork until the worker closes `channel`."""
    die_with_parent(parent)
    die_first()
    os.set_inheritable(channel, False)
    seclude(os.dup(2))
    birth, here = Birth(order), os.getpid()
    try:
        safe = _warm_up(birth)
    except BaseException:  # environments that are spawned will say the same, each where it belongs
        traceback.print_exc()
        safe = False
    if safe and os.getpid() == here:  # else the simulator forked, and this is its child that came back
        with contextlib.suppress(ConnectionError):  # the worker is gone
            _Warm(birth, socket.socket(fileno=channel)).serve()
    os._exit(0)


def _warm_up(birth: Birth) -> bool:
    """Whether environments may be forked from here."""
    birth.load()
    if birth.fork_safe is False:
        return False
    birth.warm()
    if birth.fork_safe and _single() and _inheritable(birth):
        birth.build()
    gc.collect()
    gc.freeze()  # the collector of a child must not touch, and so copy, what all share
    return _single()


def _inheritable(birth: Birth) -> bool:
    """Whether a simulator of this order may be built before the fork: a child builds one and tells."""
    here = os.getpid()
    child = os.fork()
    if child == 0:
        safe = False
        with contextlib.suppress(BaseException):
            die_with_parent(here)
            safe = getattr(birth.build(), "fork_safe", False) is True and _single()
        os._exit(0 if safe else 1)
    return os.waitpid(child, 0)[1] == 0


def _single() -> bool:
    """Whether this process has one thread."""
    return len(os.listdir("/proc/self/task")) == 1


class _Warm:
    def __init__(self, birth: Birth, channel: socket.socket) -> None:
        self.birth, self.channel = birth, channel
        self.children: set[int] = set()
        self.woken, wake = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(wake, False)
        self.wake = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)  # else the system call below would not be disturbed
        signal.set_wakeup_fd(wake)

    def serve(self) -> None:
        self._say(wire.WARMED)
        while True:
            readable, _, _ = select.select([self.channel.fileno(), self.woken], [], [])
            if self.woken in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.woken, 4096)
                self._reap()
            if self.channel.fileno() in readable and not self._fork():
                return

    def _reap(self) -> None:
        for pid in list(self.children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.children.remove(pid)
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                self._say(wire.ENDED, pid, code)

    def _fork(self) -> bool:
        descriptors = array.array("i")
        said, extra, _, _ = self.channel.recvmsg(
            16, socket.CMSG_SPACE(4 * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
        )
        if not said:
            return False
        for _, _, data in extra:
            descriptors.frombytes(data)
        here = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become(here, *descriptors)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        self.children.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        self._say(wire.FORKED, pid)
        return True

    def _become(self, parent: int, memory: int, reply: int, commands: int, log: int) -> None:
        """Be an environment process, as if it had been spawned."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        die_with_parent(parent)
        self.channel.close()
        os.close(self.woken)
        os.close(self.wake)
        seclude(log)
        # Nobody shall draw the same as its siblings where a simulator does not use its seed.
        random.seed()
        np.random.seed()
        live(self.birth, commands, reply, memory)

    def _say(self, kind: int, pid: int = 0, code: int = 0) -> None:
        self.channel.send(wire.WARM.pack(kind, pid, code))
