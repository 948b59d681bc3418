"""The worker's side of one environment process: start it, command it, notice its end."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import attrs

from ebrl.backends.protocols import SimulatorSpec
from ebrl.runtime import wire

THREAD_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# -P: the folder that the run was started in must not shadow the standard library.
_PROGRAM = (sys.executable, "-P", "-m", "ebrl.runtime.child")
_GRACE_S = 1.0  # for simulators to close, before they are killed
_LAST_WORDS = 4000  # bytes of its log that are shown of a process that ended


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
        self._log = _open_log(order.log_folder, index)
        self._born_at = self._log_size()  # what follows in the log is this process's own
        self.descriptor, writing = os.pipe()
        os.set_blocking(self.descriptor, False)
        # The order may be larger than a pipe: writing it must not wait for the process to come up.
        with tempfile.TemporaryFile() as paper:
            pickle.dump(_as_plain_data(order), paper, 4)
            paper.flush()
            paper.seek(0)
            try:
                self._process = subprocess.Popen(
                    [*_PROGRAM, str(memory), str(writing), str(paper.fileno()), str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=self._log,
                    pass_fds=(memory, writing, paper.fileno()),
                    env=os.environ | dict.fromkeys(THREAD_POOLS, str(order.threads)),
                    bufsize=0,
                    start_new_session=True,  # the terminal's Ctrl-C is for the driver; what it starts dies with it
                )
            except BaseException:
                os.close(self.descriptor)
                self._log.close()
                raise
            finally:
                os.close(writing)
        self._buffer = b""
        assert self._process.stdin is not None
        self._commands = self._process.stdin.fileno()

    @property
    def pid(self) -> int:
        return self._process.pid

    def attach(self, layout: Mapping[str, Any]) -> None:
        """Tell the process which row of the shared memory is its own."""
        data = json.dumps({"layout": layout, "row": self.index}).encode()
        self._write(wire.COMMAND.pack(wire.ATTACH, len(data)) + data)

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
            raise EnvironmentGone(failure["message"], failure["detail"], failure["hint"], failure["exit_code"])
        if kind == wire.READY:
            self.spec = pickle.loads(bytes.fromhex(text))
        outcome = None if success < 0 else bool(success)
        return Reply(kind, bool(terminated), bool(truncated), outcome, steps, elapsed_s, text)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def autopsy(self) -> EnvironmentGone:
        """How the process ended, with the last lines it wrote."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.poll()
        if code is None:
            how = "environment process closed its reply pipe"
        elif code < 0:
            how = f"environment process was killed by {_signal_name(-code)}"
        else:
            how = f"environment process exited with code {code}"
        return EnvironmentGone(how, self._last_words(self._born_at))

    def dump_stack(self) -> str:
        """The Python stacks of a process that hangs, as far as it still answers."""
        before = seen = self._log_size()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        for _ in range(50):
            time.sleep(0.01)
            size = self._log_size()
            if size == seen > before:  # written to its end
                break
            seen = size
        return self._last_words(before)

    def close(self) -> None:
        """Ask the process to leave; see `leave`."""
        if self.descriptor >= 0:
            self._write(wire.COMMAND.pack(wire.CLOSE, 0))

    def kill(self) -> None:
        """End the process now, with all that it started. Safe to call twice."""
        if self.descriptor < 0:
            return
        # The session outlives its leader while other members do, so this reaches them in any case.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        os.close(self.descriptor)
        self.descriptor = -1
        self._log.close()

    def _write(self, data: bytes) -> None:
        # A dead reader shows as the end of its reply pipe; one place handles that.
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._commands, data) :]

    def _last_words(self, since: int) -> str:
        size = self._log_size()
        start = max(since, size - _LAST_WORDS)
        lines = os.pread(self._log.fileno(), size - start, start).decode(errors="replace").splitlines()
        # The fault handler lists every native module that is loaded.
        return "\n".join(line for line in lines if not line.startswith("Extension modules:")).strip()

    def _log_size(self) -> int:
        return os.fstat(self._log.fileno()).st_size


def leave(processes: Sequence[EnvironmentProcess]) -> None:
    """End all `processes`; those that run nothing may close their simulators first."""
    for process in processes:
        process.close()
    deadline_s = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline_s and not all(process.ended for process in processes):
        time.sleep(0.005)
    for process in processes:
        process.kill()


def _as_plain_data(order: EnvironmentOrder) -> dict[str, Any]:
    # Options are pickled on their own: what they need may be importable only from the order's path.
    return {
        "name": order.name,
        "factory": dict(order.factory),
        "target": order.target,
        "options": pickle.dumps(dict(order.options), 4),
        "program": dict(order.program),
        "path": list(order.path),
    }


def _open_log(folder: str | None, index: int) -> IO[bytes]:
    """What the process prints; without a folder a nameless file, since it may say why the process ended."""
    if folder is None:
        return tempfile.TemporaryFile()
    Path(folder).mkdir(parents=True, exist_ok=True)
    return open(Path(folder) / f"environment-{index}.log", "ab+")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"signal {number}"
