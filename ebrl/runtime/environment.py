"""The worker's side of one environment process: start it, command it, notice its end."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from ebrl.backends.protocols import SimulatorSpec
from ebrl.runtime import wire

THREAD_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PROGRAM = (sys.executable, "-m", "ebrl.runtime.child")


@attrs.define(frozen=True, kw_only=True)
class EnvironmentOrder:
    """Everything an environment process needs to know to be born."""

    name: str
    """For messages: ``robosuite:Lift``."""
    factory: Mapping[str, str]
    """Importable reference to what makes the simulator."""
    target: str
    options: Mapping[str, Any]
    program: Mapping[str, str]
    """Reference to the simulation stage's function."""
    path: Sequence[str] = ()
    """Folders to import from, such as that of the workflow file."""
    threads: int = 1
    log_folder: str | None = None


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


class EnvironmentProcess:
    """One child process. All methods must be called from the thread that made it."""

    def __init__(self, index: int, order: EnvironmentOrder, memory: int) -> None:
        self.index = index
        self.order = order
        self.spec: SimulatorSpec | None = None
        self._log = self._open_log()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        environment = os.environ | dict.fromkeys(THREAD_POOLS, str(order.threads))
        try:
            self._process = subprocess.Popen(
                [*_PROGRAM, str(memory), str(writing), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._log or subprocess.DEVNULL,
                pass_fds=(memory, writing),
                env=environment,
                bufsize=0,
                start_new_session=True,  # the terminal's Ctrl-C is for the driver
            )
        finally:
            os.close(writing)
        self.descriptor = reading
        self.started_s = time.monotonic()
        self._buffer = b""
        assert self._process.stdin is not None
        self._commands = self._process.stdin.fileno()
        self._say(
            wire.CREATE,
            {
                "name": order.name,
                "factory": dict(order.factory),
                "target": order.target,
                "options": pickle.dumps(dict(order.options), 4).hex(),
                "program": dict(order.program),
                "path": list(order.path),
            },
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def attach(self, layout: Mapping[str, Any]) -> None:
        """Tell the process which row of the shared memory is its own."""
        self._say(wire.ATTACH, {"layout": layout, "row": self.index})

    def reset(self, seed: int) -> None:
        self._write(wire.COMMAND.pack(wire.RESET, seed))

    def step(self, count: int, *, first: bool) -> None:
        """Execute `count` further actions of the chunk in the slot; `first` starts a new chunk."""
        self._write(wire.COMMAND.pack(wire.STEP, -count if first else count))

    def receive(self) -> Reply | None:
        """The next complete reply, None if it has not arrived; raises EnvironmentGone."""
        with contextlib.suppress(BlockingIOError):
            if not (part := os.read(self.descriptor, 65536)):
                raise self.autopsy()
            self._buffer += part
        if len(self._buffer) < wire.REPLY.size:
            return None
        kind, terminated, truncated, success, steps, elapsed_s, length = wire.REPLY.unpack_from(self._buffer)
        end = wire.REPLY.size + length
        if len(self._buffer) < end:
            return None
        text = self._buffer[wire.REPLY.size : end].decode()
        self._buffer = self._buffer[end:]
        if kind == wire.FAILED:
            failure = json.loads(text)
            raise EnvironmentGone(
                f"{failure['type']}: {failure['message']}",
                failure["traceback"],
                failure["hint"],
                failure["exit_code"],
            )
        if kind == wire.READY:
            self.spec = pickle.loads(bytes.fromhex(text))
        outcome = None if success < 0 else bool(success)
        return Reply(kind, bool(terminated), bool(truncated), outcome, steps, elapsed_s, text)

    def autopsy(self) -> EnvironmentGone:
        """How the process ended, with the last lines it wrote."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.poll()
        if code is None:
            how = "environment process closed its reply pipe"
        elif code < 0:
            how = f"environment process was killed by {signal.Signals(-code).name}"
        else:
            how = f"environment process exited with code {code}"
        return EnvironmentGone(how, self.last_words())

    def dump_stack(self) -> str:
        """The Python stacks of a process that hangs, as far as it still answers."""
        before = self._log_size()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        for _ in range(20):
            time.sleep(0.01)
            if self._log_size() > before:
                time.sleep(0.02)
                break
        return self.last_words(before)

    def last_words(self, since: int = 0, most: int = 2000) -> str:
        if self._log is None:
            return ""
        with open(self._log.name, "rb") as log:
            size = self._log_size()
            log.seek(max(since, size - most))
            return log.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Ask the process to leave; `kill` follows where it does not."""
        with contextlib.suppress(OSError):
            os.write(self._commands, wire.COMMAND.pack(wire.CLOSE, 0))

    def kill(self) -> None:
        """End the process now. Safe to call twice."""
        if self.descriptor < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        os.close(self.descriptor)
        self.descriptor = -1
        if self._log is not None:
            self._log.close()

    def _say(self, operation: int, order: Mapping[str, Any]) -> None:
        data = json.dumps(order).encode()
        self._write(wire.COMMAND.pack(operation, len(data)) + data)

    def _write(self, data: bytes) -> None:
        # A dead reader shows as the end of its reply pipe; one place handles that.
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._commands, data) :]

    def _open_log(self) -> Any:
        if self.order.log_folder is None:
            return None
        folder = Path(self.order.log_folder)
        folder.mkdir(parents=True, exist_ok=True)
        return open(folder / f"environment-{self.index}.log", "ab")

    def _log_size(self) -> int:
        return os.path.getsize(self._log.name) if self._log is not None else 0
