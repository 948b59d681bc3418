"""Measured: an environment process, and what its steps, resets and images cost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ebrl.backends.protocols import SimulatorSpec
from ebrl.backends.registry import parse_uri, simulator_origin
from ebrl.interpreters.choose import interpreter_of
from ebrl.runtime.environment import EnvironmentGone, EnvironmentProcess, Reply, leave
from ebrl.runtime.rollout_settings import Deadlines
from ebrl.runtime.slots import Slots, anonymous_memory, layout
from ebrl.runtime.trial import order_of

MOST_STEPS = 100
_NOISE = 0.6  # of the actions: about that of a policy at the beginning of its training


class Measured:
    """Costs are milliseconds of one step, reset or image: ``wall`` by the process's own clock, without what travels
    between processes, and ``cpu`` of all its threads. What fails raises EnvironmentGone."""

    def __init__(self, address: str) -> None:
        backend, target, options = parse_uri(address)
        order = order_of(simulator_origin(backend), target, options, interpreter_of(backend), address)
        self._memory = anonymous_memory()
        self.process = EnvironmentProcess(0, order, self._memory)
        self._slots: Slots | None = None

    @property
    def spec(self) -> SimulatorSpec:
        assert self.process.spec is not None
        return self.process.spec

    def started(self) -> None:
        """Wait until it can be used."""
        self._answer("start")
        self._slots = Slots.create(self._memory, layout(self.spec, rows=1, chunk=MOST_STEPS))
        self.process.attach(self._slots.layout)

    def steps(self, count: int, seed: int) -> dict[str, float]:
        """The first `count` steps of episode `seed`, under random actions; at most `MOST_STEPS`."""
        assert self._slots is not None
        actions = self._slots["actions"][0]
        actions[:] = np.random.default_rng(seed).normal(0.0, _NOISE, actions.shape)
        self.process.reset(seed)
        self._answer("reset")
        return self._cost("step", 1, lambda _: self.process.step(count, first=True))

    def resets(self, count: int, seed: int) -> dict[str, float]:
        return self._cost("reset", count, lambda number: self.process.reset(1000 * seed + number))

    def images(self, count: int, seed: int) -> dict[str, float]:
        """All of one state."""
        self.process.reset(seed)
        self._answer("reset")
        return self._cost("step", count, lambda _: self.process.render())

    def close(self) -> None:
        leave([self.process])
        os.close(self._memory)

    def _cost(self, work: str, count: int, command: Callable[[int], None]) -> dict[str, float]:
        """Of `count` commands, shared by the steps that they took, or by the commands."""
        began_s = _cpu_s(self.process.pid)
        replies = []
        for number in range(count):
            command(number)
            replies.append(self._answer(work))
        shares = sum(reply.steps for reply in replies) or count
        return {
            "wall": 1e3 * sum(reply.elapsed_s for reply in replies) / shares,
            "cpu": 1e3 * (_cpu_s(self.process.pid) - began_s) / shares,
        }

    def _answer(self, work: str) -> Reply:
        limit_s = Deadlines().of(work)
        assert limit_s is not None
        end_s = time.monotonic() + limit_s * (MOST_STEPS if work == "step" else 1)
        while (reply := self.process.receive()) is None:
            if not select.select([self.process.descriptor], [], [], max(0.0, end_s - time.monotonic()))[0]:
                raise EnvironmentGone(f"{self.process.order.name}: no answer to {work}", self.process.dump_stack())
        return reply


@contextlib.contextmanager
def together(addresses: Mapping[str, str]) -> Iterator[dict[str, Measured]]:
    """Processes by name, started at once and ready to use; they end with the context."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name, address in addresses.items():
            found[name] = Measured(address)
            stack.callback(found[name].close)
        for measured in found.values():
            measured.started()
        yield found


def _cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process, in nanoseconds' resolution: psutil counts hundredths."""
    clock = ctypes.c_int()
    if error := ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(error, os.strerror(error))
    return time.clock_gettime(clock.value)
