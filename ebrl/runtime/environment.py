"""The worker's side of one environment process: start it, command it, notice its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import psutil

from ebrl.backends.protocols import SimulatorSpec
from ebrl.runtime import family, wire
from ebrl.runtime.failure import KILLED, ending
from ebrl.runtime.order import EnvironmentOrder, start
from ebrl.runtime.process_log import ProcessLog
from ebrl.runtime.warm import ForkedProcess, WarmProcess

_GRACE_S = 1.0  # for simulators to close, before they are killed
_END_S = 5.0  # for the kernel to end a process that was killed


@attrs.define(frozen=True)
class Reply:
    kind: int
    terminated: bool
    truncated: bool
    success: bool | None
    steps: int
    elapsed_s: float
    text: str


class EnvironmentGone(Exception):
    """The process ended or failed; the message says how, `detail` what it said last."""

    def __init__(self, message: str, detail: str = "", hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.exit_code = exit_code


class Life(Protocol):
    """A process, spawned or forked."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...


class EnvironmentProcess:
    """One child process. All methods must be called from the thread that made it.

    With `warm` it is forked from there as soon as that is ready: call `begin` then. Where forking turns out to be
    unsafe, and without `warm`, it is spawned.
    """

    def __init__(
        self, index: int, order: EnvironmentOrder, memory: int, number: int = 0, *, warm: WarmProcess | None = None
    ) -> None:
        self.index, self.number = index, number
        self.order = order
        self.spec: SimulatorSpec | None = None
        self.import_s: float | None = None
        """How long the simulator took to import, once `spec` is known and where its adapter can say so."""
        self._memory, self._warm = memory, warm
        self._life: Life | None = None
        self.leader: psutil.Process | None = None
        """The process, once it has begun, as `family` wants it."""
        self._recording = False
        self._buffer = bytearray()
        self._log = ProcessLog(order.log_folder, f"environment-{index}")
        self.descriptor, self._writing = os.pipe()
        self._reading, self._commands = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.begin()

    def begin(self) -> None:
        """Start the process, unless it has been started or must still wait for the warm one."""
        if self._life is not None or self.descriptor < 0 or (self._warm is not None and self._warm.state == "warming"):
            return
        try:
            if self._warm is not None:
                self._life = self._warm.fork(self._memory, self._writing, self._reading, self._log.file.fileno())
            if self._life is None:
                pipes = (self._memory, self._writing)
                self._life = start("ebrl.runtime.child", self.order, pipes, self._log.file, stdin=self._reading)
        except BaseException:
            self._close()
            raise
        self.leader = family.leader(self.pid)
        self._close_theirs()

    @property
    def pid(self) -> int:
        """Until the process has begun, that of the warm one."""
        if self._life is None:
            assert self._warm is not None
            return self._warm.pid
        return self._life.pid

    def attach(self, layout: Mapping[str, Any]) -> None:
        """Tell the process which row of the shared memory is its own."""
        data = json.dumps({"layout": layout, "row": self.index, "number": self.number}).encode()
        self._write(wire.COMMAND.pack(wire.ATTACH, len(data)) + data)

    def reset(self, seed: int) -> None:
        self._write(wire.COMMAND.pack(wire.RESET, seed))

    def step(self, count: int, *, first: bool) -> None:
        """Execute `count` further actions of the chunk in the slot; `first` starts a new chunk."""
        self._write(wire.COMMAND.pack(wire.STEP, -count if first else count))

    def record(self, wanted: bool) -> None:
        """Whether the replies to resets and steps carry an image from now on; see `image`."""
        if wanted or self._recording:
            self._write(wire.COMMAND.pack(wire.RECORD, int(wanted)))
        self._recording = wanted

    @property
    def recording(self) -> bool:
        return self._recording

    @property
    def heard_more(self) -> bool:
        """Whether something behind the last reply has been read already."""
        return bool(self._buffer)

    def render(self) -> None:
        """Ask for an image; see `image`."""
        self._write(wire.COMMAND.pack(wire.RENDER, 0))

    def receive(self) -> Reply | None:
        """The next complete reply, None if it has not arrived; raises EnvironmentGone."""
        with contextlib.suppress(BlockingIOError):
            if not (part := os.read(self.descriptor, 65536)):
                raise self.autopsy()
            self._buffer += part  # in place: replies may be large, and come in pieces
        if len(self._buffer) < wire.REPLY.size:
            return None
        if not wire.is_reply(self._buffer):
            raise EnvironmentGone(
                f"environment process answered what is no reply: {bytes(self._buffer[: wire.REPLY.size])!r}",
                hint="the simulator writes to files that others have opened",
            )
        kind, terminated, truncated, success, steps, elapsed_s, length = wire.REPLY.unpack_from(self._buffer)
        end = wire.REPLY.size + length
        if len(self._buffer) < end:
            return None
        text = self._buffer[wire.REPLY.size : end].decode()
        del self._buffer[:end]
        if kind == wire.FAILED:
            failure = json.loads(text)
            raise EnvironmentGone(failure["message"], failure["detail"], failure["hint"], failure["exit_code"])
        if kind == wire.READY:
            self._ready(text)
        outcome = None if success < 0 else bool(success)
        return Reply(kind, bool(terminated), bool(truncated), outcome, steps, elapsed_s, text)

    def _ready(self, text: str) -> None:
        try:
            found = wire.loads(bytes.fromhex(text))
        except Exception as error:  # the spec holds something of a package that only the simulator has
            raise EnvironmentGone(
                f"the spec of {self.order.name} cannot be read here: {type(error).__name__}: {error}",
                hint="a spec holds plain values and numpy arrays only",
            ) from error
        self.spec, self.import_s = found["spec"], found["import_s"]

    @property
    def ended(self) -> bool:
        return self.descriptor < 0 or (self._life is not None and self._life.poll() is not None)

    def autopsy(self) -> EnvironmentGone:
        """How the process ended, with the last lines it wrote."""
        code = None
        if self._life is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._life.wait(1.0)
        if code is None:
            return EnvironmentGone("environment process closed its reply pipe", self._log.last_words())
        if isinstance(self._life, ForkedProcess) and self._life.orphaned:
            assert self._warm is not None
            how = f"the warm process that it was forked from {self._warm.ending()}"
            return EnvironmentGone(how, self._warm.last_words(), self._warm.hint)
        hint = KILLED if code == -signal.SIGKILL else ""
        return EnvironmentGone(f"environment process {ending(code)}", self._log.last_words(), hint)

    def dump_stack(self) -> str:
        """The Python stacks of a process that hangs, as far as it still answers."""
        if self._life is None:
            return "" if self._warm is None else self._warm.dump_stack()

        def ask() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)

        return self._log.answer(ask)

    def trim_log(self) -> None:
        self._log.trim()

    def close(self) -> None:
        """Ask the process to leave; see `leave`."""
        if self.descriptor >= 0:
            self._write(wire.COMMAND.pack(wire.CLOSE, 0))

    def kill(self) -> None:
        """End the process now, with its session and descendants; what escaped from both ends with its family. Safe to
        call twice."""
        if self.descriptor < 0:
            return
        family.end(family.of([self.leader]))
        self.bury()

    def bury(self) -> None:
        """Let go of a process that has ended, or is about to. Safe to call twice."""
        if self.descriptor < 0:
            return
        if self._life is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel has it, and ends it when it can
                self._life.wait(_END_S)
        self._close()

    def _close(self) -> None:
        self._close_theirs()
        os.close(self.descriptor)
        os.close(self._commands)
        self.descriptor, self.leader = -1, None
        self._log.close()

    def _close_theirs(self) -> None:
        """The process alone holds its ends of the pipes, so that its end is theirs."""
        for end in (self._reading, self._writing):
            if end >= 0:
                os.close(end)
        self._reading = self._writing = -1

    def _write(self, data: bytes) -> None:
        # A dead reader shows as the end of its reply pipe; one place handles that.
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._commands, data) :]


def image(reply: Reply) -> Any:
    """The array that answers `EnvironmentProcess.render`; None where the simulator has no `render`. After `record`
    the array that a reply carries, or a sentence that says why there is none."""
    return wire.loads(bytes.fromhex(reply.text)) if reply.text else None


def leave(processes: Sequence[EnvironmentProcess]) -> None:
    """End all `processes`; those that run nothing may close their simulators first."""
    for process in processes:
        process.close()
    deadline_s = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline_s and not all(process.ended for process in processes):
        time.sleep(0.005)
    family.end(family.of(process.leader for process in processes))
    for process in processes:
        process.bury()
