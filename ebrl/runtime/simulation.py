"""The resident simulation engine: a rollout in a thread of its own, fed by admission credits."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import psutil

from ebrl.backends.protocols import SimulatorSpec
from ebrl.backends.registry import locate, simulator_names
from ebrl.errors import StageError, UsageError
from ebrl.graph.items import Episode, Trajectory
from ebrl.graph.model import Node, SimulatorRef
from ebrl.interpreters.choose import Interpreter, interpreter_of
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.assignment import Assignment, by_value
from ebrl.runtime.channel import Connection, Listener, address
from ebrl.runtime.order import EnvironmentOrder
from ebrl.runtime.rollout import Rollout, RolloutSettings
from ebrl.runtime.rollout_settings import fault_settings


class ChannelActor:
    """Asks generation workers for actions, over the channel."""

    def __init__(self, rollout: Rollout, where: str) -> None:
        assert rollout.slots is not None
        self._rollout = rollout
        self._listener = Listener(where, rollout.slots)
        self._peers: dict[Connection, set[int]] = {}
        self._unserved: list[int] = []
        rollout.loop.watch(self._listener, self._accept)

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        if not self._peers:
            self._unserved.extend(rows)
            return
        # Whoever has the least to do gets the next batch; all must hear that the simulation is hungry.
        chosen = min(self._peers, key=lambda peer: len(self._peers[peer]))
        for peer in list(self._peers):
            if peer is chosen or hungry:
                self._send(peer, rows if peer is chosen else (), hungry)

    def close(self) -> None:
        self._listener.close()
        for peer in self._peers:
            peer.close()

    def _send(self, peer: Connection, rows: Sequence[int], hungry: bool) -> None:
        if (owed := self._peers.get(peer)) is None:  # lost since the peers were listed
            if rows:
                self.request(rows, hungry=hungry)
            return
        owed.update(rows)
        try:
            peer.send(rows, hungry=hungry)
        except OSError:
            self._lost(peer)

    def _accept(self) -> None:
        if (peer := self._listener.accept()) is None:
            return
        self._peers[peer] = set()
        self._rollout.loop.watch(peer, lambda: self._answered(peer))
        rows, self._unserved = self._unserved, []
        self._send(peer, rows, hungry=True)

    def _answered(self, peer: Connection) -> None:
        try:
            for message in peer.receive():
                self._peers[peer].difference_update(message.rows)
                self._rollout.actions_arrived(message.rows)
        except OSError:
            self._lost(peer)

    def _lost(self, peer: Connection) -> None:
        """A generation worker is gone: another one, or its successor, gets what it did not answer."""
        if (owed := self._peers.pop(peer, None)) is None:
            return
        self._rollout.loop.forget(peer)
        peer.close()
        self.request(sorted(owed), hungry=True)


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
