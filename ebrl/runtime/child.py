"""An environment process: one simulator, driven over pipes. Standard library, numpy and the simulator only,
Python 3.8 on.

Started by `environment.EnvironmentProcess` through `ebrl.interpreters.bootstrap`. It leaves when its commands
end and, on Linux, when the thread that started it ends, so that it never outlives its worker.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import faulthandler
import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ebrl.backends.protocols import Simulator
from ebrl.graph.items import ActionChunk, Step
from ebrl.runtime import wire
from ebrl.runtime.birth import Birth, execute
from ebrl.runtime.contract import check_observation, checked_step
from ebrl.runtime.failure import ContractError, describe
from ebrl.runtime.slots import Slots


def main(order: dict[str, Any], memory: int, reply: int, parent: int) -> None:
    """Live as the environment of `order`; commands come on standard input."""
    die_with_parent(parent)
    die_first()
    for descriptor in (memory, reply):
        os.set_inheritable(descriptor, False)  # what the simulator starts must not keep the pipe open
    commands = os.dup(0)
    seclude(os.dup(2))
    live(Birth(order), commands, reply, memory)


def live(birth: Birth, commands: int, reply: int, memory: int) -> None:
    """Serve commands until they end, and end the process."""
    with contextlib.suppress(BrokenPipeError):  # the worker is gone
        _Child(commands, reply, memory).serve(birth)
    # Simulators may hang in their clean-up (renderers, threads); the work is done.
    os._exit(0)


def seclude(log: int) -> None:
    """A simulator that reads from standard input or prints must disturb nobody; stacks go to `log`."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(log, 2)
    os.dup2(log, 1)
    sys.stdout, sys.stderr = _printing(1), _printing(2)
    builtins.input = _refuse_input
    faulthandler.enable(log)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, log, all_threads=True)


def _printing(descriptor: int) -> io.TextIOWrapper:
    """Nothing is kept back: what was printed before a crash must not be lost."""
    return io.TextIOWrapper(_Printed(descriptor, "ab", closefd=False), "utf-8", "replace", write_through=True)


class _Printed(io.FileIO):
    """What a simulator prints is worth no trouble where the disk is full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _refuse_input(prompt: object = "", /) -> str:
    raise ContractError(f"the simulator asked for keyboard input: {str(prompt)!r}")


class _Child:
    def __init__(self, commands: int, reply: int, memory: int) -> None:
        self.commands = commands
        self.reply = reply
        self.memory = memory
        self.pid = os.getpid()
        self.row = 0
        self.simulator: Simulator
        self.program: Any
        self.slots: Slots
        self.steps: Iterator[Step] | None = None
        self.position = 0
        self.recording = False
        self.skips = False
        """Whether nobody sees what the simulator shows in the middle of a chunk, and it can save the work."""

    def serve(self, birth: Birth) -> None:
        began = time.perf_counter()
        try:
            self._create(birth, began)
        except BaseException as error:  # SystemExit of a simulator is a failure of that simulator
            self._say(wire.FAILED, began, text=json.dumps(birth.failure(error)))
            return
        while header := _read(self.commands, wire.COMMAND.size):
            operation, value = wire.COMMAND.unpack(header)
            began = time.perf_counter()
            try:
                if operation == wire.STEP:
                    self._step(value, began)
                elif operation == wire.RESET:
                    self._reset(value, began)
                elif operation == wire.ATTACH:
                    self._attach(json.loads(_read(self.commands, value)))
                elif operation == wire.RENDER:
                    self._render(began)
                elif operation == wire.RECORD:
                    self.recording = bool(value)
                else:
                    break
            except BaseException as error:
                self._say(wire.FAILED, began, text=json.dumps(describe(error)))
                break
        with contextlib.suppress(BaseException):
            self.simulator.close()

    def _create(self, birth: Birth, began: float) -> None:
        birth.load()
        birth.warm()
        self.simulator, self.program = birth.build(), birth.program
        self.skips = self.program is execute and hasattr(self.simulator, "observe")
        data = wire.dumps({"spec": self.simulator.spec, "import_s": birth.import_s})
        self._say(wire.READY, began, text=data.hex())

    def _render(self, began: float) -> None:
        image = self._image()
        self._say(wire.DONE, began, text="" if image is None else wire.dumps(image).hex())

    def _image(self) -> Any:
        render = getattr(self.simulator, "render", None)
        image = None if render is None else render()
        return None if image is None else np.asarray(image)

    def _frame(self) -> str:
        """What the reply to a reset or step carries while recording. An image that cannot be had ends the
        recording, not the episode."""
        if not self.recording:
            return ""
        try:
            frame = self._image()
            if frame is None:
                frame = "the simulator renders no image"
        except Exception as error:
            frame = describe(error)["message"]
        self.recording = not isinstance(frame, str)
        return wire.dumps(frame).hex()

    def _attach(self, order: dict[str, Any]) -> None:
        self.slots = Slots(self.memory, order["layout"])
        self.row = order["row"]
        os.environ["EBRL_ENVIRONMENT"] = str(order["number"])

    def _reset(self, seed: int, began: float) -> None:
        self.steps = None
        observation = self.simulator.reset(seed)
        self._stay_one()
        self._show(observation, "reset")
        self._say(wire.DONE, began, text=self._frame())

    def _step(self, count: int, began: float) -> None:
        """Execute up to `count` actions of the chunk; each yield of the stage is a boundary."""
        if count < 0 or self.steps is None:
            chunk = ActionChunk(self.slots["actions"][self.row].copy())
            self.slots["rewards"][self.row] = 0.0
            self.steps, self.position = iter(self.program(self.simulator, chunk)), 0
        step, success, executed = None, None, 0
        for _ in range(abs(count)):
            self.slots["position"][self.row] = self.position
            if self.skips:
                self.simulator.observe = self.position + 1 == self.slots.chunk  # type: ignore[attr-defined]
            following = next(self.steps, self)
            self._stay_one()
            if following is self:  # None is what a simulator that forgets to return gives
                break
            step = checked_step(following)
            self.slots["rewards"][self.row, self.position] = step.reward
            self.position += 1
            executed += 1
            if step.success is not None:
                success = bool(success or step.success)
            if step.terminated or step.truncated:
                break
        if step is None:
            raise ContractError(f"the simulation stage ended after {self.position} of {self.slots.chunk} actions")
        over = step.terminated or step.truncated
        if over or self.position == self.slots.chunk:
            self._show(step.observation, "step")
            self.steps = None
        outcome = -1 if success is None else int(success)
        self._say(wire.DONE, began, bool(step.terminated), bool(step.truncated), outcome, executed, self._frame())

    def _stay_one(self) -> None:
        """The simulator may have forked, and its child have come back: two must not answer."""
        if os.getpid() != self.pid:
            os._exit(0)

    def _show(self, observation: Any, call: str) -> None:
        """Copy an observation into the slot, after a check against the declared spec."""
        check_observation(self.simulator.spec, observation, call)
        self.slots.write_observation(self.row, observation)

    def _say(
        self,
        kind: int,
        began: float,
        terminated: bool = False,
        truncated: bool = False,
        success: int = -1,
        steps: int = 0,
        text: str = "",
    ) -> None:
        self._stay_one()
        data = text.encode()
        elapsed_s = time.perf_counter() - began
        message = wire.REPLY.pack(kind, terminated, truncated, success, steps, elapsed_s, len(data)) + data
        while message:
            message = message[os.write(self.reply, message) :]


def _read(descriptor: int, size: int) -> bytes:
    """Exactly `size` bytes, or nothing at the end of the stream."""
    data = b""
    while len(data) < size:
        part = os.read(descriptor, size - len(data))
        if not part:
            return b""
        data += part
    return data


def die_with_parent(parent: int) -> None:
    """Ask Linux for SIGKILL when the starting thread ends: a hung simulator reads no end of input."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def die_first() -> None:
    """Where memory ends, Linux shall end a simulator rather than what learns from it. What it starts inherits this."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+") as score:
        worse = min(1000, int(score.read()) + 500)
        score.seek(0)
        score.write(str(worse))
