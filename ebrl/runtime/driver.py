"""The driver: submits tasks, one per admission credit and stage call, and turns their news into iterations.

It decides nothing about resources or order itself: the plan, `Admission` and the graph do.
Observations, trajectories and weights go from worker to worker; the driver sees them only where it
writes a checkpoint or the final policy.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any

import attrs
from distributed import Client, Future
from distributed.scheduler import KilledWorker, NoValidWorkerError

from ebrl.errors import EbrlError, StageError
from ebrl.graph.items import Weights
from ebrl.graph.model import Graph, Node
from ebrl.graph.plan import Plan
from ebrl.runtime import tasks
from ebrl.runtime.account import Account
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.checkpoint import Checkpoint
from ebrl.schedule.admission import Admission

_WAITING_S = 30.0  # a run that hears nothing for so long says what it waits for
_LOOK_UP_S = 0.5  # how often it looks whether it shall end


@attrs.define(frozen=True)
class Iteration:
    """One training iteration: `stats` is a flat dict of numbers, as in ``metrics.jsonl``."""

    index: int
    stats: Mapping[str, float]


@attrs.define
class _Task:
    """A task in flight."""

    future: Future[Any]
    stage: str
    weights: Future[Any] | None = None
    """Of a judge's call: what it judges."""


class Driver:
    """Drives one run. `iterations` yields until the run is over or a stage asked to stop."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        client: Client,
        assignments: Mapping[str, list[Assignment]],
        *,
        emit: Callable[..., None],
        restored: Checkpoint | None = None,
        interrupted: threading.Event | None = None,
    ) -> None:
        """`interrupted` is set when somebody wishes the run to end; `iterations` then raises KeyboardInterrupt."""
        self.graph, self.plan, self.client = graph, plan, client
        self.assignments = {name: list(replicas) for name, replicas in assignments.items()}
        self.emit = emit
        self.account = Account()
        self.version = 0
        self.stopping: str | None = None
        self.last_report: dict[str, dict[str, float]] = {}
        self.goal_weights: Weights | None = None
        self._trainer: Node = graph.of_kind("training")[0]
        self._judges = [
            node
            for node in graph.of_kind("stage")
            if all(edge.latest for edge in graph.inputs(node.name))  # new weights set them off
        ]
        self._news: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._tasks: dict[str, _Task] = {}
        self._outputs: dict[int, dict[str, list[Future[Any]]]] = {}
        self._weights: Future[Any] | None = None
        self._judged: dict[str, int] = {}
        self._restored = restored
        self._interrupted = interrupted or threading.Event()
        self._residents: dict[str, int] = {}
        self._deadline_s: float | None = None
        self._began_s = self._last_s = time.monotonic()
        if restored is not None:
            self.version = restored.iteration
            self.account.restore(restored.counters)
        self._steps_before = self.account.env_steps
        self.admission = Admission(
            max_staleness=plan.max_staleness,
            iterations=int(self._trainer.options["iterations"]),
            granted=self.version,
        )
        client.subscribe_topic(tasks.topic(self._training.run), self._hear)

    # The run

    def iterations(self) -> Iterator[Iteration]:
        """Train until the iterations are done or a stage asked to stop."""
        self._open()
        self._began_s = self._last_s = time.monotonic()
        while self.version < self.admission.iterations and self.stopping is None:
            self._pump()
            if (key := self._next()) == self._training_key:
                yield self._trained(key)
        self._last_calls()

    def checkpoint(self) -> Checkpoint:
        """The state after the last complete iteration; one that is under way is awaited.

        EbrlError where a worker was lost meanwhile, TimeoutError past the deadline that `hurry` set.
        """
        keepers = [name for name in self.plan.item_stages if name == self._trainer.name or self._keeps_state(name)]
        asked = {
            name: self._submit(f"snapshot-{name}-{self.version}", tasks.snapshot, self.assignments[name][0])
            for name in keepers
        }
        saved = {name: pickle.loads(self._wait(future)) for name, future in asked.items()}
        trained = saved[self._trainer.name]
        if trained["version"] != self.version:
            raise StageError("its weights are not those of this iteration", where=self._trainer.name)
        return Checkpoint(
            workflow=self.graph.name,
            iteration=self.version,
            weights=trained["weights"],
            states={name: entry["state"] for name, entry in saved.items()},
            counters=self.account.save(),
            positions=self._positions() if self.plan.max_staleness == 0 else {},
        )

    def weights(self) -> Weights:
        """The newest weights."""
        assert self._weights is not None
        weights: Weights = self._weights.result()
        return weights

    def hurry(self, seconds: float) -> None:
        """From now on wait at most so long altogether."""
        self._deadline_s = time.monotonic() + seconds

    def cancel(self) -> None:
        """Drop what is still in flight."""
        if self._tasks:
            self.client.cancel([task.future for task in self._tasks.values()], force=True)
        self._tasks.clear()

    def rate(self) -> float:
        """Environment steps per second, from the first rollout on."""
        return (self.account.env_steps - self._steps_before) / max(self._last_s - self._began_s, 1e-9)

    @property
    def has_weights(self) -> bool:
        """Whether there is anything yet that a checkpoint could keep."""
        return self._weights is not None and self._weights.status == "finished"

    # Submitting

    def _open(self) -> None:
        """Start simulators, learn their spec, build the policy and begin to serve."""
        for replicas in self.assignments.values():
            for assignment in replicas:
                if assignment.stage.kind != "simulation":
                    self._submit(f"{assignment.worker}-warm", tasks.warm, assignment)
        probes = [
            self._submit(f"{assignment.worker}-start", tasks.probe, assignment, self.version)
            for assignment in self._simulations()
        ]
        spec, *_ = [self._wait(probe) for probe in probes]
        self.assignments = {
            name: [attrs.evolve(assignment, spec=spec) for assignment in replicas]
            for name, replicas in self.assignments.items()
        }
        saved = None if self._restored is None else Weights.of(self.version, self._restored.weights)
        first = self._submit(f"{self._trainer.name}-0-start", tasks.first_weights, self._training, saved)
        self._publish(first)
        self._wait(first, fetch=False)

    def _pump(self) -> None:
        """Submit everything that may start now."""
        for batch in self.admission.grant(self.version):
            self._outputs[batch] = self._roll(batch)
        if self._training_key not in self._tasks and self.version in self._outputs:
            ports = self._ports(self._trainer, self._outputs[self.version])
            self._submit(self._training_key, tasks.train, self._training, self.version, ports)

    def _roll(self, batch: int) -> dict[str, list[Future[Any]]]:
        """Submit the rollout of one batch and the item stages that follow it; stage -> outputs of its replicas."""
        replicas = self._simulations()
        windows = self.plan.stage(self._trainer.name).batch_size
        shares = [windows // len(replicas) + (number < windows % len(replicas)) for number in range(len(replicas))]
        oldest = self.admission.min_version(batch)
        outputs = {
            replicas[0].stage.name: [
                self._submit(f"{assignment.worker}-{batch}", tasks.advance, assignment, batch, share, oldest)
                for assignment, share in zip(replicas, shares, strict=True)
            ]
        }
        for name in self.plan.item_stages:
            node = self.graph.nodes[name]
            due = node is not self._trainer and node not in self._judges
            if due and batch % int(node.options["every"]) == 0:
                outputs[name] = [self._call(node, batch, outputs)]
        return outputs

    def _call(self, node: Node, iteration: int, outputs: Mapping[str, list[Future[Any]]]) -> Future[Any]:
        assignment = self.assignments[node.name][0]
        ports = self._ports(node, outputs)
        return self._submit(f"{assignment.worker}-{iteration}", tasks.call, assignment, iteration, ports)

    def _ports(self, node: Node, outputs: Mapping[str, list[Future[Any]]]) -> dict[str, Any]:
        """Input port -> the newest weights for registers, the outputs of all replicas for streams."""
        return {
            edge.input: self._weights if edge.latest else outputs[edge.source] for edge in self.graph.inputs(node.name)
        }

    def _publish(self, weights: Future[Any]) -> None:
        """Hand new weights to everybody who reads them."""
        self._weights = weights
        for generation in self.graph.of_kind("generation"):
            for assignment in self.assignments[generation.name]:
                self._submit(f"{assignment.worker}-{self.version}", tasks.serve, assignment, weights)
        for judge in self._judges:
            if self.version > 0 and self.version % int(judge.options["every"]) == 0:
                self._judge(judge)

    def _judge(self, judge: Node) -> None:
        if any(task.stage == judge.name for task in self._tasks.values()):
            # It takes longer than `every` iterations: let it finish rather than fall ever further behind.
            self.emit("skipped", stage=judge.name, iteration=self.version)
            return
        self._call(judge, self.version, {})
        self._judged[judge.name] = self.version
        self._tasks[f"{self.assignments[judge.name][0].worker}-{self.version}"].weights = self._weights

    def _submit(self, key: str, function: Callable[..., Any], assignment: Assignment, *args: Any) -> Future[Any]:
        """Submit a task to the worker of `assignment`. Its key groups it by stage on the dashboard."""
        future = self.client.submit(
            function,
            assignment,
            *args,
            key=f"{key}-{assignment.run}" if assignment.label else key,
            resources={assignment.tag: 1},
            pure=False,
        )
        self._tasks[key] = _Task(future, assignment.stage.name)
        future.add_done_callback(lambda _: self._news.put(("done", key)))
        return future

    # News

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        self._news.put(("told", event[1]))

    def _next(self) -> str:
        """Handle news until a task is done; its key. TimeoutError past the deadline that `hurry` set."""
        heard_s = time.monotonic()
        while True:
            now = time.monotonic()
            if self._interrupted.is_set():
                raise KeyboardInterrupt
            if self._deadline_s is not None and now > self._deadline_s:
                raise TimeoutError(f"still waiting for {self._waiting_for()}")
            if now - heard_s > _WAITING_S:
                heard_s = now
                self.emit("waiting", tasks=self._waiting_for())
            try:
                kind, value = self._news.get(timeout=_LOOK_UP_S)
            except Empty:
                continue
            if kind == "told":
                self._told(value)
                continue
            if (task := self._tasks.get(value)) is None:
                continue
            if task.future.status != "finished":
                raise self._explain(value, task)
            if value != self._training_key:
                del self._tasks[value]
            return str(value)

    def _wait(self, future: Future[Any], *, fetch: bool = True) -> Any:
        """The result of a control task; other news is handled meanwhile."""
        while future.status == "pending":
            if (key := self._next()) == self._training_key:
                self._trained(key)
        if future.status != "finished":
            key = next(key for key, task in self._tasks.items() if task.future is future)
            raise self._explain(key, self._tasks[key])
        return future.result() if fetch else None

    def _told(self, news: dict[str, Any]) -> None:
        kind = news.pop("kind")
        del news["worker"]  # Dask adds the address of the worker that spoke
        if kind == "rollout":
            self.account.rolled(news)
        elif kind == "generation":
            self.account.generated(news)
        elif kind == "training":
            self.stopping = self.stopping or news["stop"]
            self.account.trained(news)
        elif kind == "report":
            self._reported(news)
        elif kind == "resident":
            self._is_resident(news["replica"], news["pid"])
        else:
            self.emit(kind, **news)

    def _reported(self, news: dict[str, Any]) -> None:
        if news["metrics"]:
            self.last_report[news["stage"]] = news["metrics"]
            self.emit("report", stage=news["stage"], iteration=news["iteration"], metrics=news["metrics"])
        if news["stop"] and self.stopping is None:
            self.stopping = news["stop"]
            self.emit("stopping", reason=news["stop"])
            task = self._tasks.get(f"{news['replica']}-{news['iteration']}")
            if task is not None and task.weights is not None:
                self.goal_weights = task.weights.result()

    def _is_resident(self, replica: str, pid: int) -> None:
        if replica in self._residents:
            self.emit("worker_replaced", worker=replica, cause=f"process {self._residents[replica]} ended")
        self._residents[replica] = pid

    def _trained(self, key: str) -> Iteration:
        """Weights of a new version exist: publish them, release what produced them, account for it."""
        iteration = self.version
        del self._outputs[iteration]
        self.version += 1
        self._publish(self._tasks.pop(key).future)
        now = time.monotonic()
        wall_s, self._last_s = now - self._last_s, now
        stats = {
            "iteration": iteration,
            "version": self.version,
            **self.account.close(iteration, wall_s),
            "wall_s": now - self._began_s,
        }
        self.emit("iteration", **stats)
        return Iteration(iteration, stats)

    def _last_calls(self) -> None:
        """Let the calls of item stages that are under way end, and judge the final weights."""
        judges = {judge.name for judge in self._judges}
        if self.stopping is None:
            self._drain({name for name in self.plan.item_stages if name != self._trainer.name})
            for judge in self._judges:
                if self._judged.get(judge.name) != self.version:
                    self._judge(judge)
        if self.goal_weights is None:
            self._drain(judges)  # other stages may hold batches that nobody will train on, never to be complete

    def _drain(self, stages: Collection[str]) -> None:
        while any(task.stage in stages for task in self._tasks.values()):
            self._next()

    # Looking things up

    def _explain(self, key: str, task: _Task) -> EbrlError:
        """Why a task failed, as an error for the user."""
        future = task.future
        error = future.exception() if future.status == "error" else None
        if isinstance(error, EbrlError):
            return error
        if isinstance(error, KilledWorker):
            return StageError(
                f"its worker process was killed {error.allowed_failures + 1} times while it ran {key}",
                where=task.stage,
                hint="out of memory is the usual cause; see the logs in the run directory",
            )
        if isinstance(error, NoValidWorkerError) or future.status in ("cancelled", "lost"):
            return StageError(f"task {key} lost its worker and found no other", where=task.stage)
        return StageError(f"{type(error).__name__}: {error}", where=task.stage)

    def _waiting_for(self) -> str:
        """What the run needs before it can go on; generation always waits for newer weights."""
        generations = {node.name for node in self.graph.of_kind("generation")}
        waiting = sorted(key for key, task in self._tasks.items() if task.stage not in generations)
        return ", ".join(waiting) or "nothing in flight"

    def _positions(self) -> dict[int, Any]:
        """Where every environment stands."""
        asked = [
            self._submit(f"positions-{assignment.worker}-{self.version}", tasks.positions, assignment, self.version)
            for assignment in self._simulations()
        ]
        return {number: position for future in asked for number, position in self._wait(future).items()}

    def _keeps_state(self, name: str) -> bool:
        return "state" in self.graph.nodes[name].stage.roles.values()

    def _simulations(self) -> list[Assignment]:
        return [assignment for node in self.graph.of_kind("simulation") for assignment in self.assignments[node.name]]

    @property
    def _training(self) -> Assignment:
        return self.assignments[self._trainer.name][0]

    @property
    def _training_key(self) -> str:
        return f"{self._trainer.name}-{self.version}"
