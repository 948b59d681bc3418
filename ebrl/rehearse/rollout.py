"""The rollout of a rehearsal: environments that take their time, under the dispatcher, windows and requests of a run.

The life of an environment is that of `ebrl.runtime.rollout`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from ebrl.graph.schedules import Schedule
from ebrl.rehearse.clock import Clock, SharedCores
from ebrl.rehearse.device_parts import DeviceParts
from ebrl.rehearse.truth import Draws
from ebrl.schedule.barriers import StepBarrier
from ebrl.schedule.dispatcher import StepDispatcher, Urgency
from ebrl.schedule.fixed_dispatcher import FixedDispatcher
from ebrl.schedule.quantum import quantum
from ebrl.schedule.requests import Actor, Requests
from ebrl.schedule.urgency import tolerance, urgency
from ebrl.schedule.windows import Window, Windows


@attrs.define
class Environment:
    """Life: reset, idle, asking, step, asking ... reset."""

    work: str = "reset"
    window: Window | None = None
    left: int = 0
    """Chunk-steps that the window still has."""
    steps: int = 0
    """Control steps that the chunk still has."""
    core: int = 0
    """That it had last."""
    begun: bool = False
    """Whether some of the chunk are done."""
    granted: int = 0
    """Control steps that the environment does with its core."""
    began_s: float = 0.0
    """When the actions of the chunk arrived."""
    episode: float = 0.0
    """Chunk-steps until the next reset."""
    version: int = 0
    """Weights that the present chunk is from."""
    recorded: list[int] = attrs.field(factory=list)
    """Versions of the chunks of the window."""

    @property
    def urgency(self) -> Urgency:
        return urgency(self.window, self.left, begun=self.begun)


@attrs.define
class Counts:
    """Since they were taken last."""

    chunks: int = 0
    core_s: float = 0.0
    """CPU time of chunks and resets."""


class Rollout:
    """Environments over the cores of one machine; several machines count as one."""

    def __init__(
        self,
        clock: Clock,
        cores: SharedCores,
        draws: Draws,
        *,
        environments: int,
        slots: int,
        window: int,
        steps: int,
        batch_size: int,
        schedule: Schedule,
        devices: DeviceParts,
        on_batch: Callable[[int, list[int]], None],
    ) -> None:
        """slots: environments that run at a time. window: chunk-steps of one. steps: control steps of a chunk, between
        which a core may go to another environment. devices: where a chunk goes on after its core. on_batch: (batch,
        versions of its chunks)."""
        self._clock, self._cores, self._draws, self._window, self._on_batch = clock, cores, draws, window, on_batch
        self._steps = steps
        self.actor: Actor | None = None
        self.on_work: Callable[[int, str, float], None] = lambda environment, work, began_s: None
        """Hears what an environment has done on its core, and since when."""
        self.on_chunk: Callable[[int, float], None] = lambda environment, began_s: None
        """Hears when an environment has done a chunk, and when its actions had arrived."""
        self.counts = Counts()
        self.environments = [Environment() for _ in range(environments)]
        places = tuple(range(slots))
        rebinding = StepDispatcher(cores=places, tolerance=tolerance(steps) if steps > 1 else 1.0)
        self.dispatcher = rebinding if schedule.rebinding else FixedDispatcher(cores=places)
        self.idle = 0
        """Environments without a window."""
        self._devices = devices
        self._windows = Windows(environments=range(environments))
        barriers = [StepBarrier() for _ in range(schedule.groups if schedule.step_barrier else 0)]
        self.requests = Requests(batch_size=batch_size, barriers=barriers)
        self._recorded: dict[int, list[int]] = {}

    def start(self) -> None:
        """All environments show an observation."""
        for index, environment in enumerate(self.environments):
            environment.episode = self._draws.episode_left()
            self._offer(index, environment)
        self.flush()

    def admit(self, batch: int, windows: int, min_version: int) -> None:
        self._recorded[batch] = []
        self._windows.admit(batch, windows, min_version)
        self.idle = 0
        for index, environment in enumerate(self.environments):
            if environment.work == "idle":
                self._offer(index, environment)
        self.flush()

    def actions_arrived(self, rows: Sequence[int], version: int) -> None:
        self.requests.answered(rows)
        for row in rows:
            environment = self.environments[row]
            environment.work, environment.version, environment.steps = "step", version, self._steps
            environment.began_s, environment.begun = self._clock.now_s, False
            self.dispatcher.ready(row, urgency=environment.urgency)
        self.flush()

    def retune(self, *, slots: int, batch_size: int) -> None:
        self.dispatcher.move(tuple(range(slots)))
        self.requests.batch_size = batch_size
        self.flush()

    def min_version(self, row: int) -> int:
        window = self.environments[row].window
        assert window is not None
        return window.min_version

    def take_counts(self) -> Counts:
        taken, self.counts = self.counts, Counts()
        return taken

    def flush(self) -> None:
        self._dispatch()
        while self._request():
            self._dispatch()

    def _dispatch(self) -> None:
        if not (grants := self.dispatcher.dispatch()):
            return
        running = self.dispatcher.running
        for index, core in grants:
            environment = self.environments[index]
            environment.core = core
            if environment.work == "reset":
                environment.granted = 1
                core_s = self._draws.reset_s(index)
            else:
                environment.granted = self._grant(index, environment)
                core_s = self._draws.chunk_s(index, running, environment.granted / self._steps)
            self.counts.core_s += core_s
            work = partial(self._cores.run, core_s, partial(self.finished, index, self._clock.now_s))
            if gap_s := self._draws.costs.gap_s:
                self._clock.after(gap_s, work)
            else:
                work()

    def _grant(self, index: int, environment: Environment) -> int:
        if self._steps == 1:
            return 1
        return quantum(self.dispatcher.latency_s.get((index, "step")), environment.steps)

    def _request(self) -> bool:
        return self.requests.send(self.actor, hungry=self.dispatcher.hungry, active=self._active)

    def finished(self, index: int, began_s: float) -> None:
        """The chunk or reset of an environment leaves its core."""
        environment = self.environments[index]
        self.dispatcher.finished(index, self._clock.now_s - began_s, environment.granted)
        self.on_work(index, environment.work, began_s)
        if environment.work == "step" and environment.granted < environment.steps:
            environment.steps, environment.begun = environment.steps - environment.granted, True
            self.dispatcher.ready(index, urgency=environment.urgency)
            self.flush()
        elif environment.work == "reset":
            environment.episode = self._draws.episode()
            self._go_on(index, environment)
        elif not self._devices.begin(lambda: self._stepped(index, environment)):
            self._stepped(index, environment)
        else:
            self.flush()

    def _stepped(self, index: int, environment: Environment) -> None:
        self.on_chunk(index, environment.began_s)
        self._chunk_done(environment)
        self._go_on(index, environment)

    def _go_on(self, index: int, environment: Environment) -> None:
        if environment.episode <= 0:
            environment.work = "reset"
            self.dispatcher.ready(index, "reset", environment.urgency)
        elif environment.window is not None:
            self._ask(index, environment)
        else:
            self._offer(index, environment)
        self.flush()

    def _chunk_done(self, environment: Environment) -> None:
        self.counts.chunks += 1
        environment.episode -= 1
        environment.left -= 1
        environment.recorded.append(environment.version)
        window = environment.window
        if environment.left or window is None:
            return
        self._recorded[window.batch] += environment.recorded
        environment.window, environment.recorded = None, []
        if self._windows.done(window):
            self._on_batch(window.batch, self._recorded.pop(window.batch))

    def _offer(self, index: int, environment: Environment) -> None:
        if (window := self._windows.take(index)) is None:
            environment.work = "idle"
            self.idle += 1
            return
        environment.window, environment.left = window, self._window
        self._ask(index, environment)

    def _ask(self, index: int, environment: Environment) -> None:
        environment.work = "asking"
        self.requests.add(index)

    def _active(self) -> list[int]:
        """Whom a step barrier waits for."""
        soon = ("reset",) if self._windows.admitted else ()
        return [
            index
            for index, environment in enumerate(self.environments)
            if environment.work in soon or environment.window is not None
        ]
