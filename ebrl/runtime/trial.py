"""Trial: one environment of a simulator, started as a run would start it, reset, stepped and rendered."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from ebrl.backends.conformance.subject import bounds
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.errors import SimulatorError, SimulatorNotFound
from ebrl.graph.items import Array
from ebrl.interpreters.choose import Interpreter
from ebrl.interpreters.remedies import remedy
from ebrl.runtime.birth import execute
from ebrl.runtime.environment import EnvironmentGone, EnvironmentProcess, Reply, image
from ebrl.runtime.failure import ContractError
from ebrl.runtime.family import Family
from ebrl.runtime.order import EnvironmentOrder
from ebrl.runtime.rollout_settings import Deadlines
from ebrl.runtime.slots import OBSERVATION, Slots, anonymous_memory, layout

_STEPS, _LONGEST_S, _FEWEST = 300, 10.0, 20
_RESETS = 3
Say = Callable[[str, str], Any]
"""Hears (what, how) of every finding."""


def order_of(
    origin: tuple[str, str], target: str, options: Mapping[str, Any], interpreter: Interpreter, name: str
) -> EnvironmentOrder:
    """For one environment of the factory with that (module, name), to be stepped action by action."""
    return EnvironmentOrder(
        name=name,
        factory={"module": origin[0], "name": origin[1]},
        target=target,
        options=options,
        program={"module": execute.__module__, "name": execute.__name__},
        path=[os.getcwd()],
        python=interpreter.python,
        remedy=interpreter.remedy,
    )


def attempt(order: EnvironmentOrder, say: Say) -> None:
    """Tell what one environment needs and shows; SimulatorError or SimulatorNotFound with the way out."""
    memory = anonymous_memory()
    try:
        with Family() as family:
            process = EnvironmentProcess(0, attrs.evolve(order, family=family.mark), memory)
            try:
                _Trial(process, memory, say).run()
            finally:
                process.kill()
    except EnvironmentGone as gone:
        kind = SimulatorNotFound if gone.exit_code == SimulatorNotFound.exit_code else SimulatorError
        hint = gone.hint or remedy(f"{gone.message}\n{gone.detail}")
        raise kind(gone.message, where=order.name, detail=gone.detail, hint=hint) from None
    finally:
        os.close(memory)


class _Trial:
    def __init__(self, process: EnvironmentProcess, memory: int, say: Say) -> None:
        self.process, self.memory, self.say = process, memory, say
        self.deadlines = Deadlines()
        self.random = np.random.default_rng(0)

    def run(self) -> None:
        ready = self._answer("start")
        spec = self.process.spec
        assert spec is not None
        imported = "" if self.process.import_s is None else f", of which import {self.process.import_s:.2f} s"
        self.say("start", f"{ready.elapsed_s:.2f} s{imported}")
        try:
            slots = Slots.create(self.memory, layout(spec, rows=1, chunk=1))
        except ContractError as error:
            raise EnvironmentGone(str(error)) from None
        self.process.attach(slots.layout)
        self._resets()
        self._describe(spec, slots)
        self._steps(spec, slots)
        self._image()

    def _resets(self) -> None:
        took_s = [self._reset(seed) for seed in range(_RESETS)]
        self.say("reset", f"{_ms(took_s[0])} the first, {_ms(np.median(took_s[1:]))} later")

    def _reset(self, seed: int) -> float:
        self.process.reset(seed)
        return self._answer("reset").elapsed_s

    def _describe(self, spec: SimulatorSpec, slots: Slots) -> None:
        for key, space in spec.observation.items():
            shown = slots[OBSERVATION + key][0]
            self.say(f"observation {key}", f"text {shown.decode()!r}" if space.dtype == "str" else _space(space))
        self.say("action", _space(spec.action))
        if spec.control_hz:
            self.say("control", f"{spec.control_hz:g} Hz")
        if spec.max_episode_steps:
            self.say("episode", f"{spec.max_episode_steps} steps at most")
        if spec.instruction:
            self.say("instruction", repr(spec.instruction))

    def _steps(self, spec: SimulatorSpec, slots: Slots) -> None:
        took_s: list[float] = []
        while len(took_s) < _STEPS and (sum(took_s[1:]) < _LONGEST_S or len(took_s) < _FEWEST):
            slots["actions"][0, 0] = random_action(spec.action, self.random)
            self.process.step(1, first=True)
            reply = self._answer("step")
            took_s.append(reply.elapsed_s)
            if reply.terminated or reply.truncated:
                self._reset(len(took_s))
        p50, p99 = np.percentile(took_s[1:], [50, 99])  # the first one may compile
        self.say("step", f"{_ms(took_s[0])} the first, then median {_ms(p50)}, P99 {_ms(p99)} of {len(took_s)}")

    def _image(self) -> None:
        self.process.render()
        try:
            reply = self._answer("step")
        except EnvironmentGone as gone:  # a simulator that cannot draw may still be trained on
            self.say("image", f"none: {gone.message}; {gone.hint or remedy(gone.detail)}".rstrip("; "))
            return
        shown = image(reply)
        if shown is None:
            self.say("image", "none: nothing is rendered with these options")
        else:
            self.say("image", f"{' x '.join(map(str, shown.shape))} {shown.dtype}, rendered in {_ms(reply.elapsed_s)}")

    def _answer(self, work: str) -> Reply:
        limit_s = self.deadlines.of(work)
        assert limit_s is not None
        end_s = time.monotonic() + limit_s
        while (reply := self.process.receive()) is None:
            if not select.select([self.process.descriptor], [], [], max(0.0, end_s - time.monotonic()))[0]:
                stack = self.process.dump_stack()
                raise EnvironmentGone(f"no answer to {work} within {limit_s:g} s", stack)
        return reply


def random_action(space: Space, random: np.random.Generator) -> Array:
    """One action within `bounds` of `space`."""
    dtype = np.dtype(space.dtype)
    low, high = bounds(space)
    if dtype.kind in "iu":
        return np.asarray(random.integers(low, high, space.shape, endpoint=True), dtype)
    return np.asarray(random.uniform(low, high, space.shape), dtype)


def _space(space: Space) -> str:
    text = f"{space.dtype} {tuple(space.shape)}"
    if isinstance(space.low, (int, float)) and isinstance(space.high, (int, float)):
        text += f" in {space.low:g} .. {space.high:g}"
    return text


def _ms(seconds: Any) -> str:
    return f"{float(seconds):.3g} s" if seconds >= 1 else f"{1000 * float(seconds):.3g} ms"
