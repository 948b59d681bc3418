"""The generation of a rehearsal: replicas with a batcher each, on shares of devices or threads of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from ebrl.planner.costs import CPU
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.clock import Clock, SharedCores, call
from ebrl.rehearse.rollout import Rollout
from ebrl.rehearse.truth import Draws
from ebrl.schedule.batcher import Batcher
from ebrl.schedule.sharing import Message, Sharing


@attrs.define(eq=False)
class Replica:
    """One generation worker."""

    name: str
    """UUID of its device, or ``cpu-0`` and so on."""
    model: str
    quota: float
    """Percent of a device, or threads."""
    batcher: Batcher[int]
    serving: bool = False
    retired: bool = False
    served: int = 0
    batches: int = 0
    busy_s: float = 0.0
    rate: float = 0.0
    """Chunk-steps per second of the time that it worked, when it was last asked."""
    batch: float = 0.0
    """Mean requests of a call, likewise."""


class Generation:
    """Answers requests of `rollout`, of which it is the actor. New weights are loaded at once, between two calls."""

    def __init__(self, clock: Clock, cores: SharedCores, draws: Draws, rollout: Rollout) -> None:
        self._clock, self._cores, self._draws, self._rollout = clock, cores, draws, rollout
        self._version = 0
        self._sharing: Sharing[Replica] = Sharing(batch_size=1)
        self._paused_until_s = 0.0
        self._replicas: dict[str, Replica] = {}
        self.on_call: Callable[[str, int, float], None] = lambda replica, batch, began_s: None
        """Hears what a replica has answered, and since when it worked on it."""
        self.busy = 0
        """Replicas at work."""
        self.held = 0
        """Requests that wait for newer weights."""

    def use(self, problem: Problem, allocation: Allocation, pause_s: float) -> None:
        """Serve as `allocation` says. What a replica with another share owes goes to the others, after the pause: they
        begin anew what it has begun."""
        wanted = _replicas(problem, allocation)
        self._sharing.batch_size = allocation.batch
        for replica in self._replicas.values():
            replica.batcher.batch_size = allocation.batch
        if {name: (each.model, each.quota) for name, each in self._replicas.items()} == wanted:
            return
        gone = [replica for name, replica in self._replicas.items() if self._differs(name, wanted)]
        known = set(self._replicas.values())
        self._replicas = {
            name: Replica(name, model, quota, Batcher(batch_size=allocation.batch))
            if self._differs(name, wanted)
            else self._replicas[name]
            for name, (model, quota) in wanted.items()
        }
        self._paused_until_s = self._clock.now_s + pause_s
        for replica in self._replicas.values():
            if replica not in known:
                self._send(self._sharing.joined(replica))
        for replica in gone:
            self._retire(replica)
        self._clock.after(pause_s, self._serve)

    @property
    def replicas(self) -> int:
        return len(self._replicas)

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        """As `ChannelActor` does."""
        self._send(self._sharing.asked(rows, map(self._rollout.min_version, rows), hungry=hungry))

    def published(self, version: int) -> None:
        self._version = version
        for replica in self._replicas.values():
            replica.batcher.published(version)
        self.held = sum(replica.batcher.held for replica in self._replicas.values())
        self._serve()

    def rates(self) -> tuple[float, float]:
        """(chunk-steps per second that all replicas could serve together, mean requests of a call), since the last
        time. A replica without a call is taken for what it was."""
        for replica in self._replicas.values():
            if replica.batches:
                replica.rate, replica.batch = replica.served / replica.busy_s, replica.served / replica.batches
                replica.served, replica.batches, replica.busy_s = 0, 0, 0.0
        known = [replica for replica in self._replicas.values() if replica.rate]
        if not known:
            return 0.0, 0.0
        rates, batches = [replica.rate for replica in known], [replica.batch for replica in known]
        return sum(rates) * len(self._replicas) / len(known), sum(batches) / len(batches)

    def _differs(self, name: str, wanted: dict[str, tuple[str, float]]) -> bool:
        present = self._replicas.get(name)
        return present is None or wanted.get(name) != (present.model, present.quota)

    def _send(self, messages: Iterable[Message[Replica]]) -> None:
        for replica, rows, hungry in messages:
            oldest = [self._rollout.min_version(row) for row in rows]
            before = replica.batcher.held
            replica.batcher.arrived(rows, min_versions=oldest, version=self._version, hungry=hungry)
            self.held += replica.batcher.held - before
            self._next(replica)

    def _retire(self, replica: Replica) -> None:
        replica.retired = True
        self.busy -= replica.serving
        self.held -= replica.batcher.held
        self._send(self._sharing.left(replica))

    def _serve(self) -> None:
        for replica in self._replicas.values():
            self._next(replica)

    def _next(self, replica: Replica) -> None:
        if replica.serving or self._clock.now_s < self._paused_until_s or not (rows := replica.batcher.take()):
            return
        replica.serving = True
        self.busy += 1
        seconds, core_s = self._draws.generation_s(replica.model, replica.quota, len(rows))
        version, began_s = self._version, self._clock.now_s

        def done() -> None:
            # On the CPU a run measures CPU time: what it takes does not depend on who else wants the cores.
            taken_s = seconds if replica.model == CPU else self._clock.now_s - began_s
            self.on_call(replica.name, len(rows), began_s)
            self._answer(replica, rows, version, taken_s)

        call(self._clock, self._cores, seconds=seconds, core_s=core_s, done=done)

    def _answer(self, replica: Replica, rows: list[int], version: int, taken_s: float) -> None:
        if replica.retired:
            return
        replica.serving = False
        self.busy -= 1
        replica.served += len(rows)
        replica.batches += 1
        replica.busy_s += taken_s
        self._send(self._sharing.answered(replica, rows, version))
        self._next(replica)
        self._rollout.actions_arrived(rows, version)


def _replicas(problem: Problem, allocation: Allocation) -> dict[str, tuple[str, float]]:
    """Name -> (resource, quota)."""
    if not allocation.generation:
        return {
            f"cpu-{number}": (CPU, allocation.generation_threads) for number in range(allocation.generation_replicas)
        }
    models = {device.uuid: device.model for device in problem.devices}
    return {uuid: (models[uuid], percent) for uuid, percent in allocation.generation.items()}
