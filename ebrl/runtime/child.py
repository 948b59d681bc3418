"""An environment process: one simulator, driven over pipes. Standard library, numpy and the simulator only.

Started by `environment.EnvironmentProcess`. It leaves when its standard input closes and, on Linux, when
the thread that started it ends, so that it never outlives its worker.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import math
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ebrl.backends.protocols import Simulator, SimulatorSpec, Space
from ebrl.graph.items import ActionChunk, Step
from ebrl.runtime import wire
from ebrl.runtime.failure import ContractError, describe
from ebrl.runtime.slots import TEXT_BYTES, Slots


def main() -> None:
    memory, reply, order, parent = (int(argument) for argument in sys.argv[1:5])
    _die_with_parent(parent)
    for descriptor in (memory, reply, order):
        os.set_inheritable(descriptor, False)  # what the simulator starts must not keep the pipe open
    commands, log = os.dup(0), os.dup(2)
    _seclude()
    faulthandler.enable(log)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, log, all_threads=True)
    with contextlib.suppress(BrokenPipeError):  # the worker is gone
        _Child(commands, reply, memory).serve(order)
    # Simulators may hang in their clean-up (renderers, threads); the work is done.
    os._exit(0)


def _seclude() -> None:
    """A simulator that reads from standard input or prints must disturb nobody."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # prints before a crash must not be lost
    builtins.input = _refuse_input


def _refuse_input(prompt: object = "", /) -> str:
    raise ContractError(f"the simulator asked for keyboard input: {str(prompt)!r}")


class _Child:
    def __init__(self, commands: int, reply: int, memory: int) -> None:
        self.commands = commands
        self.reply = reply
        self.memory = memory
        self.row = 0
        self.simulator: Simulator
        self.program: Callable[[Simulator, ActionChunk], Iterator[Step]]
        self.slots: Slots
        self.steps: Iterator[Step] | None = None
        self.position = 0

    def serve(self, order: int) -> None:
        began = time.perf_counter()
        try:
            with open(order, "rb") as paper:
                self._create(pickle.load(paper), began)
        except BaseException as error:  # SystemExit of a simulator is a failure of that simulator
            self._failed(error, began)
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
                else:
                    break
            except BaseException as error:
                self._failed(error, began)
                break
        with contextlib.suppress(BaseException):
            self.simulator.close()

    def _create(self, order: dict[str, Any], began: float) -> None:
        sys.path[:0] = [path for path in order["path"] if path not in sys.path]
        self.program = _load(order["program"])
        simulator = _load(order["factory"])(order["target"], **pickle.loads(order["options"]))
        if simulator is None or not isinstance(getattr(simulator, "spec", None), SimulatorSpec):
            raise ContractError(
                f"the factory of {order['name']} returned {_kind(simulator)}; expected a Simulator with a "
                "`spec` of type SimulatorSpec"
            )
        self.simulator = simulator
        # What a simulator builds stays: the collector need not walk through it again and again.
        gc.collect()
        gc.freeze()
        self._say(wire.READY, began, text=pickle.dumps(simulator.spec, 4).hex())

    def _attach(self, order: dict[str, Any]) -> None:
        self.slots = Slots(self.memory, order["layout"])
        self.row = order["row"]

    def _reset(self, seed: int, began: float) -> None:
        self.steps = None
        observation = self.simulator.reset(seed)
        self._show(observation, "reset")
        self._say(wire.DONE, began)

    def _step(self, count: int, began: float) -> None:
        """Execute up to `count` actions of the chunk; each yield of the stage is a boundary."""
        if count < 0 or self.steps is None:
            chunk = ActionChunk(self.slots["actions"][self.row].copy())
            self.slots["rewards"][self.row] = 0.0
            self.steps, self.position = iter(self.program(self.simulator, chunk)), 0
        step, success, executed = None, None, 0
        for _ in range(abs(count)):
            following = next(self.steps, None)
            if following is None:
                break
            step = self._checked(following)
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
        self._say(wire.DONE, began, bool(step.terminated), bool(step.truncated), outcome, executed)

    def _checked(self, step: Any) -> Step:
        if not isinstance(step, Step):
            raise ContractError(f"the simulation stage yielded {_kind(step)}; expected Step")
        try:
            finite = math.isfinite(step.reward)
        except TypeError:
            raise ContractError(f"the reward is {_kind(step.reward)}; expected a number") from None
        if not finite:
            raise ContractError(f"the reward is {step.reward}")
        return step

    def _show(self, observation: Any, call: str) -> None:
        """Copy an observation into the slot, after a check against the declared spec."""
        declared = self.simulator.spec.observation
        if not isinstance(observation, dict):
            raise ContractError(f"{call}() gave an observation of type {_kind(observation)}; expected Observation")
        for key, space in declared.items():
            if key not in observation:
                raise ContractError(f"{call}() gave no observation '{key}'; declared: {', '.join(declared)}")
            _check(key, space, observation[key], call)
        self.slots.write_observation(self.row, observation)

    def _failed(self, error: BaseException, began: float) -> None:
        self._say(wire.FAILED, began, text=json.dumps(describe(error)))

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
        data = text.encode()
        elapsed_s = time.perf_counter() - began
        message = wire.REPLY.pack(kind, terminated, truncated, success, steps, elapsed_s, len(data)) + data
        while message:
            message = message[os.write(self.reply, message) :]


def _check(key: str, space: Space, value: Any, call: str) -> None:
    if space.dtype == "str":
        if not isinstance(value, str):
            raise ContractError(f"observation '{key}' from {call}(): expected text, got {_kind(value)}")
        if len(value.encode()) > TEXT_BYTES:
            raise ContractError(f"observation '{key}' from {call}(): text of more than {TEXT_BYTES} bytes")
        return
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or str(dtype) != space.dtype or shape != tuple(space.shape):
        got = f"{dtype} {shape}" if dtype is not None else _kind(value)
        raise ContractError(
            f"observation '{key}' from {call}(): expected {space.dtype} {tuple(space.shape)}, got {got}"
        )
    # The sum of floats is finite only where all are; one pass, no temporary.
    if dtype.kind == "f" and not math.isfinite(value.sum()) and not np.isfinite(value).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
        error = ContractError(f"observation '{key}' from {call}() is {value[index]} at index {index}")
        error.add_note(np.array2string(value, threshold=100))
        raise error


def _load(reference: dict[str, str]) -> Any:
    """Code by importable name, or as pickled bytes (stage functions, which may live in a workflow file)."""
    if "pickle" in reference:
        return pickle.loads(bytes.fromhex(reference["pickle"]))
    found: Any = importlib.import_module(reference["module"])
    for part in reference["name"].split("."):
        found = getattr(found, part)
    return found


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _read(descriptor: int, size: int) -> bytes:
    """Exactly `size` bytes, or nothing at the end of the stream."""
    data = b""
    while len(data) < size:
        part = os.read(descriptor, size - len(data))
        if not part:
            return b""
        data += part
    return data


def _die_with_parent(parent: int) -> None:
    """Ask Linux for SIGKILL when the starting thread ends: a hung simulator reads no end of input."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()
