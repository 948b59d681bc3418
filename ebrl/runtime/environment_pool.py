"""The environment processes of one rollout: starts them, hears them, replaces the lost ones within bounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from ebrl.errors import UsageError
from ebrl.graph.items import Array
from ebrl.resources import open_files
from ebrl.runtime import faults
from ebrl.runtime.environment import EnvironmentGone, EnvironmentProcess, Reply, leave
from ebrl.runtime.environment_state import EnvironmentState
from ebrl.runtime.family import Family
from ebrl.runtime.loop import Loop
from ebrl.runtime.rollout_settings import RolloutSettings
from ebrl.runtime.warm import WarmProcess


class EnvironmentPool:
    """`states` are in order of row; the state of a row changes when its process is replaced. Where that is safe,
    they are forked from one warm process.

    on_reply: (row, state, what the process said).
    on_lost: (row, state, account of the loss as of `faults.account`); a replacement starts after it.

    Both run in `loop`. SimulatorError and SimulatorNotFound leave through it: when more than half cannot start before
    any has, or a package is missing, and when fewer than half are alive. PlanError leaves the constructor, see
    `open_files.allow`.
    """

    def __init__(
        self,
        settings: RolloutSettings,
        loop: Loop,
        memory: int,
        *,
        on_reply: Callable[[int, EnvironmentState, Reply], None],
        on_lost: Callable[[int, EnvironmentState, dict[str, Any]], None],
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._memory = memory
        self._on_reply, self._on_lost = on_reply, on_lost
        self._first_given_up: EnvironmentGone | None = None
        self._any_started = False
        self._unborn: list[tuple[int, dict[str, Any], EnvironmentGone]] = []
        self.states: list[EnvironmentState] = []
        self._warm: WarmProcess | None = None
        open_files.allow(settings.num_envs)
        self._family = Family()
        self._order = attrs.evolve(settings.order, family=self._family.mark)
        try:
            if settings.num_envs > 1 and sys.platform == "linux":
                self._warm = WarmProcess(self._order)
                loop.watch(self._warm, self._warmed)
            for row, number in enumerate(settings.numbers):
                episode, replay = settings.resume.get(number, (0, ()))
                self.states.append(self._start(row, episode, replay))
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> list[int]:
        return [row for row, state in enumerate(self.states) if state.work != "gone"]

    def check(self, now: float) -> None:
        """Find what hangs, what ended unheard, and what prints too much; `now` is monotonic."""
        if self._warm is not None:
            self._warm.trim_log()
        for row in self.alive:
            state = self.states[row]
            state.process.trim_log()
            state.progressed(now)
            if (gone := faults.overdue(state, self._settings.deadlines, now)) is not None:
                self._lose(row, gone)
            elif state.process.ended:
                # A process that it forked may hold the pipe open: hear what was said before the end.
                self._readable(row)
                if self.states[row] is state and state.work != "gone":
                    self._lose(row, state.process.autopsy())

    def recycle(self, row: int) -> None:
        """Give `row` a fresh process for its next episode; the window that it records in goes on."""
        old = self.states[row]
        self._loop.forget(old.process.descriptor)
        old.process.kill()  # it runs nothing, and a simulator that leaks need not be asked to tidy up
        fresh = self._start(row, old.episode)
        fresh.window, fresh.left = old.window, old.left
        self.states[row] = fresh

    def close(self) -> None:
        """End all processes. Safe to call twice."""
        leave([state.process for state in self.states])
        if self._warm is not None:
            self._warm.close()
        self._family.close()

    def _start(self, row: int, episode: int, replay: Sequence[Array] = (), restarts: int = 0) -> EnvironmentState:
        number, now = self._settings.numbers[row], time.monotonic()
        process = EnvironmentProcess(row, self._order, self._memory, number, warm=self._warm)
        self._loop.watch(process.descriptor, partial(self._readable, row))
        return EnvironmentState(process, number, episode, list(replay), restarts, began_s=now)

    def _warmed(self) -> None:
        """The warm process said something, or has ended: what has waited for it begins."""
        warm = self._warm
        assert warm is not None
        warm.receive()
        if warm.state == "gone":
            self._loop.forget(warm)
        for row in self.alive:
            self.states[row].process.begin()

    def _readable(self, row: int) -> None:
        state = self.states[row]
        try:
            while (reply := state.process.receive()) is not None:
                self._first_started()
                self._on_reply(row, state, reply)
                # A reply may end an episode, and with it this process.
                if self.states[row] is not state or not state.process.heard_more:
                    return
        except EnvironmentGone as gone:
            self._lose(row, gone)

    def _lose(self, row: int, gone: EnvironmentGone) -> None:
        state = self.states[row]
        state.catch_up()
        lost = faults.account(state, gone, self._settings)
        state.work = "gone"
        self._loop.forget(state.process.descriptor)
        state.process.kill()
        if self._any_started:
            self._replace(row, lost, gone)
            return
        self._unborn.append((row, lost, gone))
        if gone.exit_code == UsageError.exit_code:
            raise faults.cannot_start(gone, self._settings)
        if len(self._unborn) * 2 > self._settings.num_envs:
            raise faults.cannot_start(self._unborn[0][-1], self._settings)

    def _first_started(self) -> None:
        """Starting is possible: those that failed before may try again."""
        if not self._any_started:
            self._any_started = True
            unborn, self._unborn = self._unborn, []
            for row, lost, gone in unborn:
                self._replace(row, lost, gone)

    def _replace(self, row: int, lost: dict[str, Any], gone: EnvironmentGone) -> None:
        state = self.states[row]
        self._on_lost(row, state, lost)
        if lost["restart"]:
            self.states[row] = self._start(row, state.episode + 1, restarts=state.restarts + 1)
            return
        self._first_given_up = self._first_given_up or gone
        if len(self.alive) * 2 < self._settings.num_envs:
            raise faults.too_few(self._first_given_up, self._settings)
