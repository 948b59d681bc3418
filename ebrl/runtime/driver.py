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
from typing import Any

import attrs
from distributed import Client, Future

from ebrl.errors import StageError
from ebrl.graph.items import Weights
from ebrl.graph.model import Graph, Node
from ebrl.graph.plan import Plan
from ebrl.planner.costs import Point
from ebrl.runtime import tasks
from ebrl.runtime.account import Account
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.calls import Calls, Outputs
from ebrl.runtime.checkpoint import Checkpoint
from ebrl.runtime.contract import difference
from ebrl.runtime.death import DEATHS, Death
from ebrl.runtime.flight import Flight
from ebrl.runtime.judges import Judges
from ebrl.runtime.replacements import Replacements
from ebrl.runtime.replanning import Replanning
from ebrl.schedule.admission import Admission

_TIMED_CALLS = 4  # the first of them warms up


@attrs.define(frozen=True)
class Iteration:
    """One training iteration: `stats` is a flat dict of numbers, as in ``metrics.jsonl``."""

    index: int
    stats: Mapping[str, float]


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
        replanning: Replanning | None = None,
    ) -> None:
        """replanning: changes the plan under way; None keeps it. interrupted: set when somebody wishes the run to
        end; `iterations` then raises KeyboardInterrupt."""
        self.graph, self.plan = graph, plan
        self._replicas = {each.tag: each.worker for replicas in assignments.values() for each in replicas}
        self.emit = emit
        self.account = Account()
        self.version = 0
        self.stopping: str | None = None
        self.last_report: dict[str, dict[str, float]] = {}
        self.goal_weights: Weights | None = None
        self._trainer: Node = graph.of_kind("training")[0]
        self._flight = Flight(
            client,
            on_event=self._told,
            on_waiting=lambda tasks: self.emit("waiting", tasks=tasks),
            interrupted=interrupted or threading.Event(),
            patient={node.name for node in graph.of_kind("generation")},  # it always waits for newer weights
        )
        self._calls = Calls(graph, plan, assignments, self._flight)
        self._judges = Judges(graph, self._flight, self._judge, emit)
        self._replacements = Replacements()
        self._replanning = replanning
        self._outputs: dict[int, Outputs] = {}
        self._restored = restored
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
        client.subscribe_topic(tasks.topic(self._calls.training.run), self._flight.hear)
        client.subscribe_topic(DEATHS, self._flight.hear)

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
        asked = {name: self._calls.snapshot(name, self.version) for name in keepers}
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
        assert self._calls.weights is not None
        weights: Weights = self._calls.weights.result()
        return weights

    def hurry(self, seconds: float) -> None:
        """From now on wait at most so long altogether."""
        self._flight.hurry(seconds)

    def cancel(self) -> None:
        """Drop what is still in flight."""
        self._flight.cancel()

    def rate(self) -> float:
        """Environment steps per second, from the first rollout on."""
        return (self.account.env_steps - self._steps_before) / max(self._last_s - self._began_s, 1e-9)

    @property
    def has_weights(self) -> bool:
        """Whether there is anything yet that a checkpoint could keep."""
        return self._calls.weights is not None and self._calls.weights.status == "finished"

    # Submitting

    def _open(self) -> None:
        """Start simulators, learn their spec, build the policy and begin to serve."""
        self._calls.warm()
        spec, *others = [self._wait(probe) for probe in self._calls.probe(self.version)]
        for other in others:
            if found := difference(spec, other):
                raise StageError(f"the replicas of the simulation do not declare the same: {found}")
        self._calls.know(spec)
        saved = None if self._restored is None else Weights.of(self.version, self._restored.weights)
        first = self._calls.first_weights(saved)
        self._publish(first)
        self._wait(first, fetch=False)
        if self._replanning is not None and (unknown := self._replanning.unknown):
            self._replanning.timed([self._generation_cost(batch, threads) for batch, threads in unknown])

    def _generation_cost(self, batch: int, threads: int) -> Point:
        """Of a few generation calls the quickest: what disturbs one only makes it longer."""
        timed = self.ask("generation", tasks.measure_generation, batch, _TIMED_CALLS, threads)
        quickest_s = min(timed.seconds)
        return Point(quota=threads, batch=batch, seconds=quickest_s, core_s=min(timed.core_s, threads * quickest_s))

    def ask(self, kind: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer of the first replica of the stage of `kind` to a task of `ebrl.runtime.tasks`."""
        return self._wait(self._calls.ask(kind, function, *arguments))

    def pause(self) -> dict[str, Any]:
        """Wait until nothing is recorded any more; what the training would read next."""
        self._grant()
        self._drain({node.name for node in self.graph.of_kind("simulation")})
        return self._calls.training_ports(self._outputs[self.version])

    def _pump(self) -> None:
        """Submit everything that may start now."""
        self._grant()
        if self._training_key not in self._flight and self.version in self._outputs:
            self._calls.train(self._training_key, self.version, self._outputs[self.version])

    def _grant(self) -> None:
        """Let the rollouts begin that may."""
        for batch in self.admission.grant(self.version):
            oldest = self.admission.min_version(batch)
            self._outputs[batch] = self._calls.roll(batch, oldest, without=self._judges.names)

    def _publish(self, weights: Future[Any]) -> None:
        """Hand new weights to everybody who reads them."""
        self._calls.serve(weights, self.version)
        self._judges.published(self.version)

    def _judge(self, node: Node) -> None:
        """Let a judge see the newest weights, and keep them until it has spoken."""
        future = self._calls.item(node, self.version, {})
        self._flight.task(future).weights = self._calls.weights

    # News

    def _next(self) -> str:
        """Handle news until a task is done; its key."""
        task = self._flight.next_done()
        if task.future.status != "finished":
            raise self._replacements.explain(task)
        self._replacements.finished(task.replica)
        if task.key != self._training_key:
            self._flight.landed(task)
        return task.key

    def _wait(self, future: Future[Any], *, fetch: bool = True) -> Any:
        """The result of a control task; other news is handled meanwhile."""
        while future.status == "pending":
            if (key := self._next()) == self._training_key:
                self._trained(key)
        if future.status != "finished":
            raise self._replacements.explain(self._flight.task(future))
        return future.result() if fetch else None

    def _drain(self, stages: Collection[str]) -> None:
        while self._flight.busy(stages):
            self._next()

    def _told(self, news: dict[str, Any]) -> None:
        kind = news.pop("kind")
        if kind == "death":
            self._died(Death(**news))
            return
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
            task = self._flight.get(f"{news['replica']}-{news['iteration']}")
            if task is not None and task.weights is not None:
                self.goal_weights = task.weights.result()

    def _is_resident(self, replica: str, pid: int) -> None:
        if (cause := self._replacements.resident(replica, pid)) is not None:
            self.emit("worker_replaced", worker=replica, cause=cause)

    def _died(self, death: Death) -> None:
        """A stage worker ended by itself, one of another run perhaps."""
        replica = self._replicas.get(death.worker)
        if replica is None:
            return
        self._replacements.died(replica, death)
        for task in self._flight:
            if task.replica == replica and (error := self._replacements.hopeless(task)) is not None:
                raise error

    def _trained(self, key: str) -> Iteration:
        """Weights of a new version exist: publish them, release what produced them, account for it."""
        iteration = self.version
        del self._outputs[iteration]
        self.version += 1
        trained = self._flight.get(key)
        assert trained is not None
        self._flight.landed(trained)
        self._publish(trained.future)
        now = time.monotonic()
        wall_s, self._last_s = now - self._last_s, now
        stats = {
            "iteration": iteration,
            "version": self.version,
            **self.account.close(iteration, wall_s),
            "wall_s": now - self._began_s,
        }
        self.emit("iteration", **stats)
        self._replan()
        return Iteration(iteration, stats)

    def _replan(self) -> None:
        """Let what was measured change the plan."""
        if self._replanning is None or (measured := self.account.measured) is None:
            return
        plan = self._replanning.after(measured, self.admission.iterations - self.version)
        if plan is not None:
            self.plan = plan
            self._calls.retune(plan)

    def _last_calls(self) -> None:
        """Let the calls of item stages that are under way end, and judge the final weights."""
        if self.stopping is None:
            self._drain({name for name in self.plan.item_stages if name != self._trainer.name})
            self._judges.last(self.version)
        if self.goal_weights is None:
            # Other stages may hold batches that nobody will train on, never to be complete.
            self._drain(self._judges.names)

    # Looking things up

    def _positions(self) -> dict[int, Any]:
        """Where every environment stands."""
        asked = self._calls.positions(self.version)
        return {number: position for future in asked for number, position in self._wait(future).items()}

    def _keeps_state(self, name: str) -> bool:
        return "state" in self.graph.nodes[name].stage.roles.values()

    @property
    def _training_key(self) -> str:
        return f"{self._trainer.name}-{self.version}"
