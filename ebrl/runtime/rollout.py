"""Rollout: drives the environments of one worker through their windows. One thread, no policy, no Dask.

All decisions come from `schedule/`; this file turns replies of environment processes and arriving
actions into events for them, and their decisions into commands.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import attrs

from ebrl.graph.items import Array, Episode, Trajectory
from ebrl.resources.affinity import bind
from ebrl.runtime import faults
from ebrl.runtime.environment import EnvironmentGone, EnvironmentProcess, Reply, leave
from ebrl.runtime.environment_state import EnvironmentState
from ebrl.runtime.loop import Loop
from ebrl.runtime.rollout_settings import Deadlines, RolloutSettings
from ebrl.runtime.seeding import chunk_seed, reset_seed
from ebrl.runtime.slots import Slots, anonymous_memory, layout
from ebrl.runtime.trajectories import TrajectoryRecorder
from ebrl.schedule.barriers import StepBarrier
from ebrl.schedule.dispatcher import StepDispatcher
from ebrl.schedule.windows import Windows

__all__ = ["Actor", "Counters", "Deadlines", "Rollout", "RolloutSettings"]

_TICK_S = 0.5  # how often deadlines are looked at


class Actor(Protocol):
    """Where actions come from. Each request is answered once, through `Rollout.actions_arrived`."""

    def request(self, rows: Sequence[int], *, hungry: bool) -> None: ...


@attrs.define
class Counters:
    """What the rollout did since it began."""

    env_steps: int = 0
    chunk_steps: int = 0
    busy_s: float = 0.0
    """Core-seconds in which an environment was resetting or stepping."""
    lost: int = 0


class Rollout:
    """See the module. Construct and use in one thread, except through `loop.call`."""

    def __init__(
        self,
        settings: RolloutSettings,
        *,
        make_actor: Callable[[Rollout], Actor],
        on_batch: Callable[[int, list[Trajectory]], None],
        on_lost: Callable[[dict[str, Any]], None] = lambda lost: None,
        on_episode: Callable[[Episode], None] = lambda episode: None,
    ) -> None:
        self.settings = settings
        self.loop = Loop()
        self.counters = Counters()
        self.slots: Slots | None = None
        self.dispatcher = StepDispatcher(cores=settings.cores)
        self.windows = Windows(environments=range(settings.num_envs), in_order=settings.in_order)
        self._make_actor, self._actor = make_actor, None  # type: tuple[Any, Actor | None]
        self._on_batch, self._on_lost, self._on_episode = on_batch, on_lost, on_episode
        self._barrier = StepBarrier() if settings.step_barrier else None
        self._requests: list[int] = []
        self._unanswered: set[int] = set()
        self._told_hungry = False
        self._recorded: dict[int, list[tuple[int, Trajectory]]] = {}
        self._given_up: list[EnvironmentGone] = []
        self._next_tick_s = 0.0
        self._purpose = reset_seed(0, settings.purpose, 0, 0)
        self._memory = anonymous_memory()
        self._environments: list[EnvironmentState] = []
        try:
            for index, number in enumerate(settings.numbers):
                episode, replay = settings.resume.get(number, (0, ()))
                self._environments.append(self._start(index, episode, replay))
        except BaseException:
            self.close()
            raise

    # Events from outside

    def admit(self, batch: int, count: int, min_version: int) -> None:
        """`count` windows of `batch` may be recorded, from weights of `min_version` on."""
        if not count:
            self._on_batch(batch, [])
            return
        self._recorded[batch] = []
        self.windows.admit(batch, count, min_version)
        self._offer_idle()
        self._flush()

    def restart(self) -> None:
        """Drop all windows and begin again with the first episode of every environment."""
        self.windows.clear()
        self._recorded.clear()
        for index in self.alive:
            environment = self._environments[index]
            environment.window, environment.episode, environment.replay = None, 0, []
            if environment.recorder is not None:
                environment.recorder.drop()
            if environment.work in ("idle", "asking"):
                self._withdraw(index)
                self._begin_reset(index, environment)
            elif environment.work in ("step", "reset"):
                environment.restart = True

    def actions_arrived(self, rows: Sequence[int]) -> None:
        """The slots of `rows` hold a new action chunk."""
        self._unanswered.difference_update(rows)
        for row in rows:
            environment = self._environments[row]
            if environment.work != "asking":  # it died meanwhile
                continue
            if environment.asked:
                environment.begin_chunk()
                self.dispatcher.ready(row)
            else:  # that was for its predecessor
                self._ask(row, environment)

    def poll(self, timeout_s: float) -> None:
        """Handle what has happened, waiting at most `timeout_s` for something to happen."""
        self.loop.poll(min(timeout_s, _TICK_S))
        if (now := time.monotonic()) >= self._next_tick_s:
            self._next_tick_s = now + _TICK_S
            self._look_after(now)
        self._flush()

    def positions(self) -> dict[int, tuple[int, list[Array]]]:
        """Where every environment stands, for `RolloutSettings.resume`."""
        return {
            environment.number: (environment.episode, list(environment.actions)) if self.settings.in_order
            else (environment.episode + 1, [])
            for environment in self._environments
        }  # fmt: skip

    @property
    def alive(self) -> list[int]:
        return [index for index, environment in enumerate(self._environments) if environment.work != "gone"]

    def pids(self) -> list[int]:
        return [self._environments[index].process.pid for index in self.alive]

    def queue_depth(self) -> int:
        """Environments that wait for actions."""
        return sum(environment.work == "asking" for environment in self._environments)

    def close(self) -> None:
        """End all environments. Safe to call twice."""
        leave([environment.process for environment in self._environments])
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    # Life of an environment, see `EnvironmentState`

    def _start(self, index: int, episode: int, replay: Sequence[Array] = (), restarts: int = 0) -> EnvironmentState:
        process = EnvironmentProcess(index, self.settings.order, self._memory)
        self.loop.watch(process.descriptor, partial(self._readable, index))
        return EnvironmentState(
            process,
            self.settings.numbers[index],
            episode,
            list(replay),
            restarts,
            began_s=time.monotonic(),
        )

    def _readable(self, index: int) -> None:
        environment = self._environments[index]
        try:
            while (reply := environment.process.receive()) is not None:
                if environment.work == "start":
                    self._started(index, environment)
                elif environment.work == "reset":
                    self._was_reset(index, environment, reply)
                else:
                    self._stepped(index, environment, reply)
        except EnvironmentGone as gone:
            self._lose(index, gone)

    def _started(self, index: int, environment: EnvironmentState) -> None:
        spec = environment.process.spec
        assert spec is not None
        if self.slots is None:
            described = layout(spec, rows=self.settings.num_envs, chunk=self.settings.chunk)
            self.slots = Slots.create(self._memory, described)
            self._actor = self._make_actor(self)
        environment.process.attach(self.slots.layout)
        if self.settings.num_steps is not None:
            environment.recorder = TrajectoryRecorder(self.slots, index, environment.number)
        self._begin_reset(index, environment)

    def _begin_reset(self, index: int, environment: EnvironmentState) -> None:
        environment.begin_episode()
        self.dispatcher.ready(index, "reset")

    def _was_reset(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        self._count_work(index, environment, reply)
        if environment.restart:
            self._begin_reset(index, environment)
        elif environment.replay:
            self._replay(index, environment)
        else:
            self._offer(index, environment)

    def _offer(self, index: int, environment: EnvironmentState) -> None:
        """The environment shows an observation: it asks for actions if a window has room for it."""
        if environment.window is None:
            if (window := self.windows.take(index)) is None:
                environment.work = "idle"
                return
            environment.window = window
            environment.left = self.settings.num_steps or 0
        if environment.recorder is not None and not environment.recorder.recording:
            environment.recorder.begin(episode=environment.episode, start=environment.chunks, capacity=environment.left)
        self._ask(index, environment)

    def _offer_idle(self) -> None:
        for index, environment in enumerate(self._environments):
            if environment.work == "idle":
                self._offer(index, environment)

    def _ask(self, index: int, environment: EnvironmentState) -> None:
        assert self.slots is not None and environment.window is not None
        environment.work = "asking"
        # Actions for a process that died meanwhile may still be on their way into this slot.
        environment.asked = index not in self._unanswered
        if not environment.asked:
            return
        self.slots["seed"][index] = chunk_seed(
            self.settings.seed, self._purpose, environment.number, environment.episode, environment.chunks
        )
        self.slots["min_version"][index] = environment.window.min_version
        if self._barrier is not None:
            self._barrier.arrived(index)
        else:
            self._requests.append(index)

    def _stepped(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        self._count_work(index, environment, reply)
        if environment.restart:
            self._begin_reset(index, environment)
            return
        environment.executed += reply.steps
        if reply.success is not None:
            environment.success = bool(environment.success) or reply.success
        over = reply.terminated or reply.truncated
        if not over and environment.executed < self.settings.chunk:
            self.dispatcher.ready(index)  # a step boundary: another environment may be worth the core more
            return
        self._chunk_done(index, environment)
        if over:
            self._episode_done(index, environment, reply)
        elif environment.replay:
            self._replay(index, environment)
        elif environment.window is None:  # a replay ended here
            self._offer(index, environment)
        elif environment.left == 0 and self.settings.num_steps is not None:
            self._window_done(environment)
            self._offer(index, environment)
        else:
            self._ask(index, environment)

    def _chunk_done(self, index: int, environment: EnvironmentState) -> None:
        assert self.slots is not None
        if environment.window is not None:  # a replay was counted before
            self.counters.env_steps += environment.executed
            self.counters.chunk_steps += 1
        keep = self.settings.in_order and self.settings.num_steps is not None
        environment.chunk_done(self.slots, index, keep_actions=keep)

    def _episode_done(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        self._on_episode(environment.result())
        truncated = reply.truncated and not reply.terminated
        if environment.window is not None:
            self._keep(environment, reply.terminated, truncated, environment.success)
            if environment.left == 0:
                self._window_done(environment)
        environment.restarts, environment.replay = 0, []
        environment.episode += 1
        self._begin_reset(index, environment)

    def _replay(self, index: int, environment: EnvironmentState) -> None:
        """Bring a resumed environment to where it was: the same reset, then the same actions."""
        assert self.slots is not None
        self.slots["actions"][index] = environment.replay.pop(0)
        environment.begin_chunk()
        self.dispatcher.ready(index)

    def _keep(
        self,
        environment: EnvironmentState,
        terminated: bool = False,
        truncated: bool = False,
        success: bool | None = None,
    ) -> None:
        """Close the trajectory that is being recorded, if any, and keep it for its batch."""
        recorder, window = environment.recorder, environment.window
        if recorder is None or not recorder.recording or window is None:
            return
        trajectory = recorder.close(terminated=terminated, truncated=truncated, success=success)
        if len(trajectory):
            self._recorded[window.batch].append((window.index, trajectory))

    def _window_done(self, environment: EnvironmentState) -> None:
        self._keep(environment)
        window, environment.window = environment.window, None
        assert window is not None
        if self.windows.done(window):
            recorded = sorted(self._recorded.pop(window.batch), key=lambda entry: entry[0])
            self._on_batch(window.batch, [trajectory for _, trajectory in recorded])

    def _count_work(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        self.dispatcher.finished(index, reply.elapsed_s)
        environment.began_s = 0.0
        self.counters.busy_s += reply.elapsed_s

    # Decisions become commands

    def _flush(self) -> None:
        while self._dispatch() or self._request():
            pass

    def _dispatch(self) -> bool:
        grants = self.dispatcher.dispatch()
        for index, core in grants:
            environment = self._environments[index]
            if self.settings.bind and core != environment.core:
                bind(environment.process.pid, (core,))
                environment.core = core
            environment.began_s = time.monotonic()
            if environment.work == "reset":
                seed = reset_seed(self.settings.seed, self.settings.purpose, environment.number, environment.episode)
                environment.process.reset(seed)
            else:
                environment.process.step(1, first=environment.executed == 0)
        return bool(grants)

    def _request(self) -> bool:
        if self._barrier is not None:
            active = [i for i in self.alive if self._environments[i].window is not None or self._pending(i)]
            self._requests += self._barrier.release(active)
        hungry = self.dispatcher.waiting == 0
        if not self._requests and (not hungry or self._told_hungry or not self.queue_depth()):
            return False
        rows, self._requests = self._requests, []
        self._unanswered.update(rows)
        self._told_hungry = hungry
        assert self._actor is not None
        try:
            self._actor.request(rows, hungry=hungry)
        except BaseException:
            self._unanswered.difference_update(rows)
            self._requests = rows
            raise
        return True

    def _pending(self, index: int) -> bool:
        """Whether the environment will soon take one of the windows that are still open."""
        return self.windows.admitted > 0 and self._environments[index].work in ("start", "reset")

    def _withdraw(self, index: int) -> None:
        """The environment does not want actions any more."""
        self._requests = [row for row in self._requests if row != index]
        if self._barrier is not None:
            self._barrier.remove(index)

    # Faults

    def _look_after(self, now: float) -> None:
        for index in self.alive:
            environment = self._environments[index]
            if (gone := faults.overdue(environment, self.settings.deadlines, now)) is not None:
                self._lose(index, gone)
            elif environment.process.ended:
                # A process that it forked may hold the pipe open: hear what was said before the end.
                self._readable(index)
                if self._environments[index] is environment and environment.work != "gone":
                    self._lose(index, environment.process.autopsy())

    def _lose(self, index: int, gone: EnvironmentGone) -> None:
        """Close what the environment recorded as truncated, and replace it within bounds."""
        environment = self._environments[index]
        lost = faults.account(environment, gone, self.settings)
        environment.work = "gone"
        self.loop.forget(environment.process.descriptor)
        environment.process.kill()
        if self.slots is None:
            raise faults.cannot_start(gone, self.settings)
        self.dispatcher.remove(index)
        self._withdraw(index)
        self.counters.lost += 1
        self._on_lost(lost)
        self._close_window(environment)
        if lost["restart"]:
            self._environments[index] = self._start(index, environment.episode + 1, (), environment.restarts + 1)
        else:
            self._given_up.append(gone)
            self.windows.remove(index)
            if len(self.alive) * 2 < self.settings.num_envs:
                raise faults.too_few(self._given_up[0], self.settings)
        self._offer_idle()

    def _close_window(self, environment: EnvironmentState) -> None:
        """A lost environment ends its window early; one that recorded nothing leaves it to others."""
        if (window := environment.window) is None:
            return
        self._on_episode(environment.result(lost=True))
        self._keep(environment, truncated=True)
        if environment.left == self.settings.num_steps:
            environment.window = None
            self.windows.give_back(window)
        else:
            self._window_done(environment)
