"""The resident simulation engine: a rollout in a thread of its own, fed by admission credits."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import attrs
import psutil

from ebrl.backends.protocols import SimulatorSpec
from ebrl.backends.registry import locate, simulator_names
from ebrl.errors import StageError, UsageError
from ebrl.graph.items import Episode, Trajectory
from ebrl.graph.model import Node, SimulatorRef
from ebrl.interpreters.choose import Interpreter, interpreter_of
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.actors import ChannelActor, RandomActor
from ebrl.runtime.assignment import Assignment, by_value
from ebrl.runtime.channel import address
from ebrl.runtime.order import EnvironmentOrder
from ebrl.runtime.rollout import Rollout, RolloutSettings
from ebrl.runtime.rollout_settings import fault_settings


@attrs.define(frozen=True, kw_only=True)
class Recorded:
    """What simulators did alone."""

    chunks: int
    wall_s: float
    core_s: float
    """CPU time of environments and engine, of all `chunks`."""
    steps_s: tuple[float, ...]
    """Mean durations of steps that were granted together, with nobody else in between."""
    latencies_s: tuple[float, ...]
    """Of chunks, while all environments were busy."""
    memory_mib: float
    """Resident size of all environments together, what they share counted for each."""


Answer = SimpleQueue[Any]


class SimulationEngine:
    """Runs the rollout in its own thread until closed; other threads ask it through its loop."""

    def __init__(self, assignment: Assignment, on_lost: Callable[[dict[str, Any]], None], first_batch: int) -> None:
        self._assignment = assignment
        self._on_lost = on_lost
        self._first_batch = first_batch
        self._answers: dict[int, Answer] = {}
        self._episodes: list[Episode] = []
        self._failure: BaseException | None = None
        self._closing = False
        self._ready = threading.Event()
        self._rollout: Rollout | None = None
        self._actor: ChannelActor | None = None
        self._measured = 0  # batches of `measure` count down from here
        self._marks = (time.monotonic(), 0.0, 0.0)
        self._thread = threading.Thread(target=self._run, name=assignment.worker, daemon=True)
        self._thread.start()

    def spec(self) -> SimulatorSpec:
        """What the simulators declare; waits until the first one has started."""
        spec = self._started().spec
        assert spec is not None
        return spec

    def advance(self, batch: int, count: int, min_version: int) -> tuple[list[Trajectory], dict[str, Any]]:
        """Record `count` windows for `batch`; returns when the last one is complete, with the telemetry since
        the batch before."""
        rollout = self._started()
        answer: Answer = SimpleQueue()
        self._answers[batch] = answer
        rollout.loop.call(lambda: rollout.admit(batch, count, min_version))
        found: tuple[list[Trajectory], dict[str, Any]] = self._take(answer)
        return found

    def positions(self) -> dict[int, Any]:
        """Where every environment stands."""
        rollout = self._started()
        answer: Answer = SimpleQueue()
        rollout.loop.call(lambda: answer.put(rollout.positions()))
        found: dict[int, Any] = self._take(answer)
        return found

    def retune(self, assignment: Assignment) -> None:
        """Follow the quota and the batches of a new plan. An engine that is not ready yet begins with them."""
        self._assignment = assignment
        quota, size = assignment.stage.quota, assignment.request_size
        if (rollout := self._rollout) is not None:
            rollout.loop.call(lambda: rollout.retune(cores=quota.cores, bind=quota.bound, batch_size=size))

    def measure(self, cores: Sequence[int], windows: int) -> Recorded:
        """Record `windows` windows with random actions on `cores`; for a time when nothing else is recorded."""
        rollout = self._started()
        began = self._asked_alone(rollout, tuple(cores))
        steps_s: list[float] = []
        rollout.on_steps = lambda seconds, steps: steps_s.append(seconds / steps)
        self._measured -= 1
        began_s = time.perf_counter()
        self._telemetry()
        trajectories, telemetry = self.advance(self._measured, windows, 0)
        wall_s = time.perf_counter() - began_s
        rollout.on_steps = lambda seconds, steps: None
        rollout.loop.call(lambda: rollout.use(self._actor, self._assignment.stage.quota.cores))
        return Recorded(
            chunks=sum(len(trajectory.versions) for trajectory in trajectories),
            wall_s=wall_s,
            core_s=telemetry["simulator_cpu_s"] + telemetry["engine_cpu_s"],
            steps_s=tuple(steps_s),
            latencies_s=tuple(began.latencies_s),
            memory_mib=telemetry["resident_mib"],
        )

    def _asked_alone(self, rollout: Rollout, cores: tuple[int, ...]) -> RandomActor:
        ready: SimpleQueue[RandomActor] = SimpleQueue()

        def change() -> None:
            actor = RandomActor(rollout)
            rollout.use(actor, cores)
            ready.put(actor)

        rollout.loop.call(change)
        return ready.get()

    def _started(self) -> Rollout:
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        assert self._rollout is not None
        return self._rollout

    def _take(self, answer: Answer) -> Any:
        """The answer, or the failure that ended the engine."""
        while True:
            try:
                result = answer.get(timeout=0.5)
            except Empty:
                if self._failure is not None:
                    raise self._failure from None
                continue
            return result

    def _telemetry(self) -> dict[str, Any]:
        """What happened since the last call."""
        rollout = self._rollout
        assert rollout is not None
        episodes, self._episodes = self._episodes, []
        now, engine_s, simulators_s = time.monotonic(), time.process_time(), _cpu_s(rollout.pids())
        before, self._marks = self._marks, (now, engine_s, simulators_s)
        used_s = max(0.0, simulators_s - before[2])  # less than before where a process was replaced
        cores = len(rollout.dispatcher.cores)
        available_s = cores * max(now - before[0], 1e-9)
        return {
            "idle": max(0.0, 1.0 - used_s / available_s),
            "cores": cores,
            "queue_depth": rollout.queue_depth(),
            "engine_cpu_s": engine_s - before[1],
            "simulator_cpu_s": used_s,
            "resident_mib": rollout.recycling.resident_mib,
            "largest_mib": rollout.recycling.largest_mib,
            "recycled": rollout.recycling.recycled,
            "episodes": [[e.environment, e.episode, e.steps, e.reward, e.success, e.lost] for e in episodes],
        }

    def close(self) -> None:
        self._closing = True
        self._fail(StageError("the run has ended", where=self._assignment.stage.name))
        if self._rollout is not None:
            self._rollout.loop.call(lambda: None)
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            settings = self._settings()
            where = address(self._assignment.run, self._assignment.worker)
            self._rollout = rollout = Rollout(
                settings,
                make_actor=lambda rollout: self._open(rollout, where),
                on_batch=self._complete,
                on_lost=self._on_lost,
                on_episode=lambda episode: self._episodes.append(episode),
            )
            try:
                while not self._closing:
                    rollout.poll(0.5)
            finally:
                rollout.close()
                if self._actor is not None:
                    self._actor.close()
        except BaseException as failure:
            self._fail(failure)

    def _open(self, rollout: Rollout, where: str) -> ChannelActor:
        self._actor = ChannelActor(rollout, where)
        self._ready.set()
        return self._actor

    def _complete(self, batch: int, trajectories: list[Trajectory]) -> None:
        self._answers.pop(batch).put((trajectories, self._telemetry()))

    def _fail(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        self._ready.set()

    def _settings(self) -> RolloutSettings:
        assignment = self._assignment
        node = assignment.node()
        num_envs, num_steps = int(node.options["num_envs"]), int(node.options["num_steps"])
        replicas = assignment.stage.replicas
        own = range(assignment.replica, num_envs, replicas)
        return RolloutSettings(
            order=environment_order(node, assignment),
            num_envs=len(own),
            numbers=own,
            batch_size=assignment.request_size,
            num_steps=num_steps,
            chunk=assignment.chunk,
            cores=assignment.stage.quota.cores,
            bind=assignment.stage.quota.bound,
            seed=assignment.seed,
            purpose=node.name,
            step_barrier=assignment.step_barrier,
            groups=assignment.groups,
            rebinding=assignment.rebinding,
            in_order=assignment.in_order,
            resume=self._resume(own, num_steps),
            **fault_settings(node.options, ResourcePool.discover().memory_mib),
        )

    def _resume(self, numbers: Sequence[int], num_steps: int) -> dict[int, Any]:
        """Where a checkpoint left the environments; without one, episodes that no earlier engine can have used."""
        restored = self._assignment.restored
        if restored.get("positions") and self._first_batch == restored["iteration"]:
            return dict(restored["positions"])
        return {number: (self._first_batch * num_steps, ()) for number in numbers}


def interpreter_for(node: Node) -> Interpreter:
    """Where the simulators of `node` run on this machine."""
    found = node.reference(SimulatorRef)
    assert found is not None
    backend = found[1].backend
    return interpreter_of(backend) if backend in simulator_names() else Interpreter()


def environment_order(node: Node, assignment: Assignment) -> EnvironmentOrder:
    """How the environment processes of `node` are made."""
    found = node.reference(SimulatorRef)
    assert found is not None
    reference: SimulatorRef = found[1]
    (module, name), target = locate(reference.backend, reference.target)
    interpreter = interpreter_for(node)
    if by_value(assignment.packed_program):
        _check_version(interpreter, reference, node)
    return EnvironmentOrder(
        name=str(reference),
        factory={"module": module, "name": name},
        target=target,
        options=reference.options,
        program={"pickle": assignment.packed_program.hex()},
        path=assignment.path,
        python=interpreter.python,
        remedy=interpreter.remedy,
        threads=1,
        log_folder=f"{assignment.log_folder}/{assignment.worker}" if assignment.log_folder else None,
    )


def _check_version(interpreter: Interpreter, reference: SimulatorRef, node: Node) -> None:
    own, other = sys.version_info[:2], interpreter.version
    if own != other:
        raise UsageError(
            f"{reference} runs in Python {other[0]}.{other[1]}, which cannot execute the workflow's own simulation "
            f"stage, compiled by Python {own[0]}.{own[1]}",
            where=f"{node.name}.env",
            hint=f"use ebrl.stages.simulate, or run ebrl with Python {other[0]}.{other[1]}",
        )


def _cpu_s(pids: Sequence[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
