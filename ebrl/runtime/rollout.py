"""Rollout: drives the environments of one worker through their windows. One thread, no policy, no Dask.

All decisions come from `schedule/`; this file turns replies of environment processes and arriving
actions into events for them, and their decisions into commands.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ebrl.backends.protocols import SimulatorSpec
from ebrl.graph.items import Array, Episode, Trajectory
from ebrl.resources.affinity import bind
from ebrl.resources.resident import resident_mib
from ebrl.runtime.contract import difference
from ebrl.runtime.environment import EnvironmentGone, Reply, image
from ebrl.runtime.environment_pool import EnvironmentPool
from ebrl.runtime.environment_state import EnvironmentState
from ebrl.runtime.failure import ContractError
from ebrl.runtime.faults import cannot_start
from ebrl.runtime.filming import Filming
from ebrl.runtime.loop import Loop
from ebrl.runtime.recording import Recording
from ebrl.runtime.rollout_settings import Deadlines, RolloutSettings
from ebrl.runtime.seeding import chunk_seed, reset_seed
from ebrl.runtime.slots import Slots, anonymous_memory, layout
from ebrl.runtime.trajectories import TrajectoryRecorder
from ebrl.schedule.barriers import StepBarrier
from ebrl.schedule.dispatcher import StepDispatcher
from ebrl.schedule.fixed_dispatcher import FixedDispatcher
from ebrl.schedule.quantum import quantum
from ebrl.schedule.recycling import Recycling
from ebrl.schedule.requests import Actor, Requests
from ebrl.schedule.urgency import tolerance
from ebrl.schedule.windows import Windows

__all__ = ["Actor", "Deadlines", "Rollout", "RolloutSettings"]

_TICK_S = 0.5  # how often deadlines are looked at


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
        self.env_steps = 0
        """Recorded since it began."""
        self.spec: SimulatorSpec | None = None
        self.slots: Slots | None = None
        self._bind = settings.bind
        self.dispatcher = (
            StepDispatcher(cores=settings.cores, tolerance=tolerance(settings.chunk))
            if settings.rebinding
            else FixedDispatcher(cores=settings.cores)
        )
        windows = Windows(environments=range(settings.num_envs), in_order=settings.in_order)
        self._recording = Recording(windows, settings.num_steps, on_batch)
        self._requests = Requests(
            batch_size=settings.batch_size,
            barriers=[StepBarrier() for _ in range(settings.groups if settings.step_barrier else 0)],
        )
        self._make_actor, self._actor = make_actor, None  # type: tuple[Any, Actor | None]
        self._on_lost, self._on_episode = on_lost, on_episode
        self.on_steps: Callable[[float, int], None] = lambda seconds, steps: None
        """Hears how long an environment took for so many steps."""
        self.camera: Filming | None = None
        """Films episodes that begin from now on."""
        self.recycling = Recycling(limit_mib=settings.memory_limit_mib)
        self._next_check_s = 0.0
        self._purpose = reset_seed(0, settings.purpose, 0, 0)
        self._memory = anonymous_memory()
        self._pool = EnvironmentPool(settings, self.loop, self._memory, on_reply=self._answered, on_lost=self._lost)
        self._environments = self._pool.states

    # Events from outside

    def admit(self, batch: int, count: int, min_version: int) -> None:
        """`count` windows of `batch` may be recorded, from weights of `min_version` on."""
        self._recording.admit(batch, count, min_version)
        self._offer_idle()
        self._flush()

    def retune(self, *, cores: tuple[int, ...], bind: bool, batch_size: int) -> None:
        """Use other cores and ask for other batches from now on. Nothing is interrupted."""
        if self._bind and not bind:
            self._unbind(cores)
        self._bind = bind
        self.dispatcher.move(cores)
        self._requests.batch_size = batch_size
        self._flush()

    def use(self, actor: Actor | None, cores: tuple[int, ...]) -> None:
        """Ask another actor from now on, and use other cores; for a time when nobody waits for an answer."""
        self._actor = actor
        self.dispatcher.move(cores)

    def restart(self) -> None:
        """Drop all windows and begin again with the first episode of every environment."""
        self._recording.clear()
        for index in self.alive:
            environment = self._environments[index]
            environment.window, environment.episode, environment.replay = None, 0, []
            if environment.recorder is not None:
                environment.recorder.drop()
            if environment.work in ("idle", "asking"):
                self._requests.withdraw(index)
                self._begin_reset(index, environment)
            elif environment.work in ("step", "reset"):
                environment.restart = True

    def actions_arrived(self, rows: Sequence[int]) -> None:
        """The slots of `rows` hold a new action chunk."""
        self._requests.answered(rows)
        for row in rows:
            environment = self._environments[row]
            if environment.work != "asking":  # it died meanwhile
                continue
            if environment.asked:
                environment.begin_chunk()
                self.dispatcher.ready(row, urgency=environment.urgency)
            else:  # that was for its predecessor
                self._ask(row, environment)

    def poll(self, timeout_s: float) -> None:
        """Handle what has happened, waiting at most `timeout_s` for something to happen."""
        self.loop.poll(min(timeout_s, _TICK_S))
        if (now := time.monotonic()) >= self._next_check_s:
            self._next_check_s = now + _TICK_S
            self._pool.check(now)
        self._flush()

    def positions(self) -> dict[int, tuple[int, list[Array]]]:
        """Where every environment stands, for `RolloutSettings.resume`."""
        return {
            environment.number: (environment.episode, list(environment.actions)) if self.settings.in_order
            else (environment.episode + 1, [])
            for environment in self._environments
        }  # fmt: skip

    @property
    def batch_size(self) -> int:
        """Most requests of one generation call."""
        return self._requests.batch_size

    @property
    def alive(self) -> list[int]:
        return self._pool.alive

    def pids(self) -> list[int]:
        return [self._environments[index].process.pid for index in self.alive]

    def queue_depth(self) -> int:
        """Environments that wait for actions."""
        return sum(environment.work == "asking" for environment in self._environments)

    def close(self) -> None:
        """End all environments. Safe to call twice."""
        self._pool.close()
        self.loop.close()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    # Life of an environment, see `EnvironmentState`

    def _answered(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        if environment.work == "start":
            self._started(index, environment)
            return
        if not environment.began_s:
            raise EnvironmentGone("environment process answered without being asked")
        if self.camera is not None and reply.text and not environment.restart:
            self.camera.frame(environment.number, environment.episode, image(reply))
        if environment.work == "reset":
            self._was_reset(index, environment, reply)
        else:
            self._stepped(index, environment, reply)

    def _started(self, index: int, environment: EnvironmentState) -> None:
        spec = environment.process.spec
        assert spec is not None
        if self.slots is None:
            self.spec = spec
            self.slots = Slots.create(self._memory, self._layout(spec))
            self._actor = self._make_actor(self)
        assert self.spec is not None
        if other := difference(self.spec, spec):
            raise EnvironmentGone(other, hint="all environments of a rollout must declare the same")
        environment.process.attach(self.slots.layout)
        environment.position = self.slots["position"][index : index + 1]
        if self.settings.num_steps is not None:
            environment.recorder = TrajectoryRecorder(self.slots, index, environment.number)
        self._begin_reset(index, environment)

    def _layout(self, spec: SimulatorSpec) -> dict[str, Any]:
        try:
            return layout(spec, rows=self.settings.num_envs, chunk=self.settings.chunk)
        except ContractError as error:
            raise cannot_start(EnvironmentGone(str(error)), self.settings) from None

    def _begin_reset(self, index: int, environment: EnvironmentState) -> None:
        environment.begin_episode()
        self.dispatcher.ready(index, "reset", environment.urgency)

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
        if self._recording.begin(index, environment):
            self._ask(index, environment)
        else:
            environment.work = "idle"

    def _offer_idle(self) -> None:
        for index, environment in enumerate(self._environments):
            if environment.work == "idle":
                self._offer(index, environment)

    def _ask(self, index: int, environment: EnvironmentState) -> None:
        assert self.slots is not None and environment.window is not None
        environment.work = "asking"
        self.slots["seed"][index] = chunk_seed(
            self.settings.seed, self._purpose, environment.number, environment.episode, environment.chunks
        )
        self.slots["min_version"][index] = environment.window.min_version
        environment.asked = self._requests.add(index)

    def _stepped(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        self._count_work(index, environment, reply)
        if environment.restart:
            self._begin_reset(index, environment)
            return
        self.on_steps(reply.elapsed_s, reply.steps)
        environment.executed += reply.steps
        if reply.success is not None:
            environment.success = bool(environment.success) or reply.success
        over = reply.terminated or reply.truncated
        if not over and environment.executed < self.settings.chunk:
            self.dispatcher.ready(
                index, urgency=environment.urgency
            )  # between two grants another environment may be worth the core more
            return
        self._chunk_done(index, environment)
        if over:
            self._episode_done(index, environment, reply)
        elif environment.replay:
            self._replay(index, environment)
        elif environment.window is None:  # a replay ended here
            self._offer(index, environment)
        elif self._recording.full(environment):
            self._recording.window_done(environment)
            self._offer(index, environment)
        else:
            self._ask(index, environment)

    def _chunk_done(self, index: int, environment: EnvironmentState) -> None:
        assert self.slots is not None
        if environment.window is not None:  # a replay was counted before
            self.env_steps += environment.executed
        keep = self.settings.in_order and self.settings.num_steps is not None
        environment.chunk_done(self.slots, index, keep_actions=keep)

    def _episode_done(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        self._on_episode(environment.result())
        self._recording.episode_done(environment, terminated=reply.terminated, truncated=reply.truncated)
        environment.restarts, environment.replay = 0, []
        environment.episode += 1
        if (size_mib := resident_mib(environment.process.pid)) is not None:
            self.recycling.measured(environment.number, size_mib)
        if self.recycling.due(environment.number):
            self.recycling.replaced(environment.number, on_purpose=True)
            self._pool.recycle(index)
        else:
            self._begin_reset(index, environment)

    def _replay(self, index: int, environment: EnvironmentState) -> None:
        """Bring a resumed environment to where it was: the same reset, then the same actions."""
        assert self.slots is not None
        self.slots["actions"][index] = environment.replay.pop(0)
        environment.begin_chunk()
        self.dispatcher.ready(index, urgency=environment.urgency)

    def _count_work(self, index: int, environment: EnvironmentState, reply: Reply) -> None:
        self.dispatcher.finished(index, reply.elapsed_s, reply.steps)
        environment.began_s = 0.0

    # Decisions become commands

    def _flush(self) -> None:
        while self._dispatch() or self._request():
            pass

    def _dispatch(self) -> bool:
        grants = self.dispatcher.dispatch()
        for index, core in grants:
            environment = self._environments[index]
            if self._bind and core != environment.core:
                bind(environment.process.pid, (core,))
                environment.core = core
            environment.began_s = time.monotonic()
            if environment.work == "reset":
                seed = reset_seed(self.settings.seed, self.settings.purpose, environment.number, environment.episode)
                filmed = self.camera is not None and self.camera.wanted(environment.number, environment.episode)
                environment.process.record(filmed)
                environment.process.reset(seed)
            else:
                environment.process.step(self._quantum(index, environment), first=environment.executed == 0)
        return bool(grants)

    def _unbind(self, cores: tuple[int, ...]) -> None:
        for index in self.alive:
            environment = self._environments[index]
            bind(environment.process.pid, cores)
            environment.core = None

    def _quantum(self, index: int, environment: EnvironmentState) -> int:
        left = self.settings.chunk - environment.executed
        if environment.process.recording:  # a film shows every step
            return 1
        if self.settings.quantum is not None:
            return min(left, self.settings.quantum)
        return quantum(self.dispatcher.latency_s.get((index, "step")), left)

    def _request(self) -> bool:
        return self._requests.send(self._actor, hungry=self.dispatcher.hungry, active=self._active)

    def _active(self) -> list[int]:
        """Environments that record a window, or will soon take one of those that are still open."""
        soon = ("start", "reset") if self._recording.open else ()
        return [
            index
            for index, environment in enumerate(self._environments)
            if environment.work in soon or (environment.window is not None and environment.work != "gone")
        ]

    def _lost(self, index: int, environment: EnvironmentState, lost: dict[str, Any]) -> None:
        """What the environment recorded ends as truncated, and its place in all queues is free."""
        self.dispatcher.remove(index)
        self._requests.withdraw(index)
        self.recycling.replaced(environment.number, on_purpose=False)
        self._on_lost(lost)
        if environment.window is not None:
            self._on_episode(environment.result(lost=True))
        self._recording.lost(environment)
        if not lost["restart"]:
            self._recording.given_up(index)
        self._offer_idle()
