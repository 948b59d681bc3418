"""Rollout: drives the environments of one worker through their windows. One thread, no policy, no Dask.

All decisions come from `schedule/`; this file turns replies of environment processes and arriving
actions into events for them, and their decisions into commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import attrs
import numpy as np

from ebrl import errors
from ebrl.graph.items import Array, Episode, Trajectory
from ebrl.resources.affinity import bind
from ebrl.runtime.environment import EnvironmentGone, EnvironmentOrder, EnvironmentProcess, Reply
from ebrl.runtime.loop import Loop
from ebrl.runtime.seeding import chunk_seed, reset_seed
from ebrl.runtime.slots import Slots, anonymous_memory, layout
from ebrl.runtime.trajectories import TrajectoryRecorder
from ebrl.schedule.barriers import StepBarrier
from ebrl.schedule.dispatcher import StepDispatcher
from ebrl.schedule.windows import Window, Windows

_TICK_S = 0.5  # how often deadlines are looked at


@attrs.define(frozen=True, kw_only=True)
class Deadlines:
    """Seconds after which an environment counts as hung, by what it is doing."""

    start_s: float = 300.0
    reset_s: float = 120.0
    step_s: float = 60.0

    def of(self, work: str) -> float:
        return {"start": self.start_s, "reset": self.reset_s, "step": self.step_s}[work]


@attrs.define(frozen=True, kw_only=True)
class RolloutSettings:
    order: EnvironmentOrder
    num_envs: int
    num_steps: int | None
    """Chunk-steps of one window; None: a window is one whole episode, and nothing is recorded."""
    chunk: int
    cores: tuple[int, ...]
    """One environment runs on each at a time."""
    bind: bool = False
    """Move an environment's threads to the core that it was granted."""
    seed: int = 0
    purpose: str = "simulate"
    """Separates the random streams of several rollouts of one run."""
    step_barrier: bool = False
    in_order: bool = False
    """Results do not depend on timing (see `Windows`)."""
    deadlines: Deadlines = Deadlines()
    most_restarts: int = 3
    """Restarts of one environment without a finished episode between them, before it is given up."""
    resume: Mapping[int, tuple[int, Sequence[Array]]] = attrs.field(factory=dict)
    """Per environment: the episode to begin with, and the action chunks to replay in it."""


class Actor(Protocol):
    """Where actions come from. Answers arrive through `Rollout.actions_arrived`."""

    def request(self, rows: Sequence[int], *, hungry: bool) -> None: ...


@attrs.define
class _Environment:
    process: EnvironmentProcess
    episode: int = 0
    work: str = "start"  # start, reset, idle, asking, step, gone
    began_s: float = 0.0
    core: int | None = None
    window: Window | None = None
    left: int = 0  # chunk-steps that the window still has
    chunks: int = 0  # chunks of this episode so far
    executed: int = 0  # actions of the present chunk
    steps: int = 0
    reward: float = 0.0
    success: bool | None = None
    restarts: int = 0
    recorder: TrajectoryRecorder | None = None
    actions: list[Array] = attrs.field(factory=list)  # of this episode, where a resume may replay them
    replay: list[Array] = attrs.field(factory=list)
    restart: bool = False  # begin anew at the next boundary


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
        self._told_hungry = False
        self._recorded: dict[int, list[tuple[int, Trajectory]]] = {}
        self._next_tick_s = 0.0
        self._purpose = reset_seed(0, settings.purpose, 0, 0)
        self._memory = anonymous_memory()
        self._environments = [self._start(index) for index in range(settings.num_envs)]

    # Events from outside

    def admit(self, batch: int, count: int, min_version: int) -> None:
        """`count` windows of `batch` may be recorded, from weights of `min_version` on."""
        self._recorded[batch] = []
        self.windows.admit(batch, count, min_version)
        for index, environment in enumerate(self._environments):
            if environment.work == "idle":
                self._offer(index)
        self._flush()

    def restart(self) -> None:
        """Drop all windows and begin again with the first episode of every environment."""
        self.windows.clear()
        for index in self.alive:
            environment = self._environments[index]
            environment.window, environment.episode = None, 0
            if environment.work == "idle":
                self._begin_reset(index, environment)
            elif environment.work in ("step", "reset"):
                environment.restart = True

    def actions_arrived(self, rows: Sequence[int]) -> None:
        """The slots of `rows` hold a new action chunk."""
        for row in rows:
            environment = self._environments[row]
            if environment.work == "asking":  # else it died meanwhile
                environment.work, environment.executed = "step", 0
                self.dispatcher.ready(row)

    def poll(self, timeout_s: float) -> None:
        """Handle what has happened, waiting at most `timeout_s` for something to happen."""
        self.loop.poll(min(timeout_s, _TICK_S))
        self._flush()
        if (now := time.monotonic()) >= self._next_tick_s:
            self._next_tick_s = now + _TICK_S
            self._check_deadlines(now)

    def positions(self) -> dict[int, tuple[int, list[Array]]]:
        """Where every environment stands, for `RolloutSettings.resume`."""
        return {
            index: (environment.episode, list(environment.actions)) if self.settings.in_order
            else (environment.episode + 1, [])
            for index, environment in enumerate(self._environments)
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
        for index in self.alive:
            self._environments[index].process.close()
        for index in self.alive:
            self._environments[index].process.kill()

    # Life of an environment: start, reset, idle, asking, step, asking ... reset ...

    def _start(self, index: int) -> _Environment:
        process = EnvironmentProcess(index, self.settings.order, self._memory)
        environment = _Environment(process, began_s=time.monotonic())
        environment.episode, replay = self.settings.resume.get(index, (0, ()))
        environment.replay = list(replay)
        self.loop.watch(process.descriptor, partial(self._readable, index))
        return environment

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

    def _started(self, index: int, environment: _Environment) -> None:
        spec = environment.process.spec
        assert spec is not None
        if self.slots is None:
            described = layout(spec, rows=self.settings.num_envs, chunk=self.settings.chunk)
            self.slots = Slots.create(self._memory, described)
            self._actor = self._make_actor(self)
        environment.process.attach(self.slots.layout)
        if self.settings.num_steps is not None:
            environment.recorder = TrajectoryRecorder(self.slots, index)
        self._begin_reset(index, environment)

    def _begin_reset(self, index: int, environment: _Environment) -> None:
        environment.work = "reset"
        environment.began_s = 0.0
        environment.chunks = environment.steps = 0
        environment.reward, environment.success = 0.0, None
        environment.actions, environment.restart = [], False
        self.dispatcher.ready(index, "reset")

    def _was_reset(self, index: int, environment: _Environment, reply: Reply) -> None:
        self._count_work(index, environment, reply)
        if environment.restart:
            self._begin_reset(index, environment)
        elif environment.replay:
            self._replay(index, environment)
        else:
            self._offer(index)

    def _offer(self, index: int) -> None:
        """The environment shows an observation: it asks for actions if a window has room for it."""
        environment = self._environments[index]
        if environment.window is None:
            if (window := self.windows.take(index)) is None:
                environment.work = "idle"
                return
            environment.window = window
            environment.left = self.settings.num_steps or 0
        if environment.recorder is not None and not environment.recorder.recording:
            environment.recorder.begin(episode=environment.episode, start=environment.chunks, capacity=environment.left)
        self._ask(index, environment)

    def _ask(self, index: int, environment: _Environment) -> None:
        assert self.slots is not None and environment.window is not None
        environment.work = "asking"
        episode, chunk = environment.episode, environment.chunks
        self.slots["seed"][index] = chunk_seed(self.settings.seed, self._purpose, index, episode, chunk)
        self.slots["min_version"][index] = environment.window.min_version
        if self._barrier is not None:
            self._barrier.arrived(index)
        else:
            self._requests.append(index)

    def _stepped(self, index: int, environment: _Environment, reply: Reply) -> None:
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
        if environment.replay:
            self._replay(index, environment)
        elif over:
            self._episode_done(index, environment, reply)
        elif environment.window is not None and environment.left == 0 and self.settings.num_steps is not None:
            self._window_done(index, environment, {})
            self._offer(index)
        elif environment.window is None:  # a replay ended here
            self._offer(index)
        else:
            self._ask(index, environment)

    def _chunk_done(self, index: int, environment: _Environment) -> None:
        assert self.slots is not None
        self.counters.env_steps += environment.executed
        self.counters.chunk_steps += 1
        environment.chunks += 1
        environment.steps += environment.executed
        environment.reward += float(self.slots["rewards"][index].sum(dtype=np.float64))
        if self.settings.in_order and self.settings.num_steps is not None:
            environment.actions.append(self.slots["actions"][index].copy())
        if environment.recorder is not None and environment.recorder.recording:
            environment.recorder.chunk(environment.executed)
            environment.left -= 1

    def _episode_done(self, index: int, environment: _Environment, reply: Reply) -> None:
        self._on_episode(
            Episode(index, environment.episode, environment.steps, environment.reward, environment.success)
        )
        flags = {
            "terminated": reply.terminated,
            "truncated": reply.truncated and not reply.terminated,
            "success": environment.success,
        }
        if environment.window is not None:
            if environment.left == 0:
                self._window_done(index, environment, flags)
            else:
                self._keep(environment, flags)
        environment.restarts = 0
        environment.episode += 1
        self._begin_reset(index, environment)

    def _replay(self, index: int, environment: _Environment) -> None:
        """Bring a resumed environment to where it was: the same reset, then the same actions."""
        assert self.slots is not None
        self.slots["actions"][index] = environment.replay.pop(0)
        environment.work, environment.executed = "step", 0
        self.dispatcher.ready(index)

    def _keep(self, environment: _Environment, flags: Mapping[str, Any]) -> None:
        assert environment.recorder is not None and environment.window is not None
        trajectory = environment.recorder.close(**flags)
        if len(trajectory):
            window = environment.window
            self._recorded[window.batch].append((window.index, trajectory))

    def _window_done(self, index: int, environment: _Environment, flags: Mapping[str, Any]) -> None:
        window = environment.window
        assert window is not None
        if environment.recorder is not None and environment.recorder.recording:
            self._keep(environment, flags)
        environment.window = None
        if self.windows.done(window):
            recorded = sorted(self._recorded.pop(window.batch), key=lambda entry: entry[0])
            self._on_batch(window.batch, [trajectory for _, trajectory in recorded])

    def _count_work(self, index: int, environment: _Environment, reply: Reply) -> None:
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
                seed = reset_seed(self.settings.seed, self.settings.purpose, index, environment.episode)
                environment.process.reset(seed)
            else:
                environment.process.step(1, first=environment.executed == 0)
        return bool(grants)

    def _request(self) -> bool:
        if self._barrier is not None:
            active = [i for i in self.alive if self._environments[i].window is not None or self._pending(i)]
            self._requests = self._barrier.release(active)
        hungry = self.dispatcher.waiting == 0
        if self._requests:
            rows, self._requests = self._requests, []
        elif hungry and not self._told_hungry and self.queue_depth():
            rows = []
        else:
            return False
        self._told_hungry = hungry
        assert self._actor is not None
        self._actor.request(rows, hungry=hungry)
        return True

    def _pending(self, index: int) -> bool:
        """Whether the environment will soon take one of the windows that are still open."""
        return self.windows.admitted > 0 and self._environments[index].work in ("start", "reset")

    # Faults

    def _check_deadlines(self, now: float) -> None:
        for index in self.alive:
            environment = self._environments[index]
            limit_s = (
                self.settings.deadlines.of(environment.work) if environment.work in ("start", "reset", "step") else 0
            )
            if environment.began_s and limit_s and now - environment.began_s > limit_s:
                stack = environment.process.dump_stack()
                self._lose(index, EnvironmentGone(f"no answer to {environment.work} within {limit_s:g} s", stack))

    def _lose(self, index: int, gone: EnvironmentGone) -> None:
        """Close what the environment recorded as truncated, and replace it."""
        environment = self._environments[index]
        self.loop.forget(environment.process.descriptor)
        environment.process.kill()
        self.dispatcher.remove(index)
        if self._barrier is not None:
            self._barrier.remove(index)
        self._requests = [row for row in self._requests if row != index]
        if self.slots is None:
            self._give_up(gone)
        self.counters.lost += 1
        doing = environment.work
        environment.work = "gone"
        self._on_lost(self._account(index, environment, doing, gone))
        if environment.window is not None:
            self._on_episode(
                Episode(index, environment.episode, environment.steps, environment.reward, None, lost=True)
            )
            self._window_done(index, environment, {"truncated": True})
        self._replace(index, environment, gone)
        self._flush()

    def _replace(self, index: int, environment: _Environment, gone: EnvironmentGone) -> None:
        restarts = environment.restarts + 1
        if restarts > self.settings.most_restarts:
            self.windows.remove(index)
            if len(self.alive) * 2 < self.settings.num_envs:
                self._give_up(gone)
            for other in self.alive:
                if self._environments[other].work == "idle":
                    self._offer(other)
            return
        episode = environment.episode + 1
        replacement = self._start(index)
        replacement.episode, replacement.restarts, replacement.replay = episode, restarts, []
        self._environments[index] = replacement

    def _account(self, index: int, environment: _Environment, doing: str, gone: EnvironmentGone) -> dict[str, Any]:
        seed = reset_seed(self.settings.seed, self.settings.purpose, index, environment.episode)
        return {
            "environment": index,
            "simulator": self.settings.order.name,
            "episode": environment.episode,
            "step": environment.steps + environment.executed,
            "seed": seed,
            "doing": doing,
            "message": gone.message,
            "detail": gone.detail,
            "restart": environment.restarts + 1 <= self.settings.most_restarts,
        }

    def _give_up(self, gone: EnvironmentGone) -> None:
        kind = errors.SimulatorNotFound if gone.exit_code == 2 else errors.SimulatorError
        name = self.settings.order.name
        if kind is errors.SimulatorNotFound:
            message = gone.message.partition(": ")[2]
            raise kind(message, where=f"{self.settings.purpose}.env", hint=gone.hint)
        raise kind(
            f"{name}: {gone.message}" if self.slots is None
            else f"{name}: fewer than half of {self.settings.num_envs} environments are alive; the last one: {gone.message}",
            where=f"{self.settings.purpose}.env", detail=gone.detail, hint=gone.hint,
        )  # fmt: skip
