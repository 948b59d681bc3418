"""The driver: submits tasks, one per admission credit and stage call, and turns their news into iterations.

It decides nothing about resources or order itself: the plan, `Admission` and the graph do. It never
touches observations, trajectories or weights; those go from worker to worker.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any

import attrs
from distributed import Client, Future
from distributed.scheduler import KilledWorker, NoValidWorkerError

from ebrl.errors import EbrlError, StageError
from ebrl.graph.items import Episode, Weights
from ebrl.graph.model import Edge, Graph, Node
from ebrl.graph.plan import Plan
from ebrl.observe.metrics import EpisodeWindow
from ebrl.runtime import tasks
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.checkpoint import Checkpoint
from ebrl.schedule.admission import Admission

_WAITING_S = 30.0  # a run that hears nothing for so long says what it waits for


@attrs.define(frozen=True)
class Iteration:
    """One training iteration: `stats` is a flat dict of numbers (see README, metrics)."""

    index: int
    stats: Mapping[str, float]


class Driver:
    """Drives one run. `iterations` yields until the run is over or `stop` was asked for."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        client: Client,
        assignments: Mapping[str, list[Assignment]],
        *,
        emit: Callable[..., None],
        counters: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph, self.plan, self.client = graph, plan, client
        self.assignments = {name: list(replicas) for name, replicas in assignments.items()}
        self.emit = emit
        self.trainer: Node = graph.of_kind("training")[0]
        self.version = 0
        self.stopping: str | None = None
        self.episodes = EpisodeWindow()
        self.env_steps = 0
        self.max_staleness_seen = 0
        self.last_report: dict[str, dict[str, float]] = {}
        self.goal_weights: Weights | None = None
        self.times: defaultdict[str, float] = defaultdict(float)
        self._news: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._futures: dict[str, Future[Any]] = {}
        self._chains: dict[int, dict[str, Any]] = {}
        self._published: dict[int, Future[Any]] = {}
        self._stats: defaultdict[int, dict[str, float]] = defaultdict(dict)
        self._steps: defaultdict[int, dict[str, int]] = defaultdict(dict)
        self._generation: dict[str, float] = {}
        self._residents: dict[str, int] = {}
        self._deadline_s: float | None = None
        self._began_s = self._last_s = time.monotonic()
        if counters is not None:
            self._restore(counters)
        self._steps_before = self.env_steps
        self.admission = Admission(
            max_staleness=plan.max_staleness,
            iterations=int(self.trainer.options["iterations"]),
            granted=self.version,
        )
        client.subscribe_topic(tasks.topic(self._any.run), self._hear)

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
        """The state after the last complete iteration; one that is under way is awaited."""
        states, weights = {}, None
        for name in self.plan.item_stages:
            future = self._submit(f"snapshot-{name}-{self.version}", tasks.snapshot, self.assignments[name][0])
            saved = self._wait(future)
            states[name] = saved["state"]
            weights = saved["weights"] if name == self.trainer.name else weights
        positions: dict[int, Any] = {}
        for simulation in self.graph.of_kind("simulation") if self.plan.max_staleness == 0 else ():
            for assignment in self.assignments[simulation.name]:
                key = f"positions-{assignment.worker}-{self.version}"
                positions |= self._wait(self._submit(key, tasks.positions, assignment, self.version))
        assert weights is not None
        return Checkpoint(
            workflow=self.graph.name,
            iteration=self.version,
            weights=weights,
            states=states,
            counters={
                "version": self.version,
                "env_steps": self.env_steps,
                "max_staleness_seen": self.max_staleness_seen,
                "episodes": self.episodes.save(),
            },
            positions=positions,
        )

    def weights(self) -> Weights:
        """The newest weights."""
        weights: Weights = self._published[self.version].result()
        return weights

    def hurry(self, seconds: float) -> None:
        """From now on wait at most so long altogether."""
        self._deadline_s = time.monotonic() + seconds

    def cancel(self) -> None:
        """Drop what is still in flight."""
        if self._futures:
            self.client.cancel(list(self._futures.values()), force=True)
        self._futures.clear()

    def waiting_for(self) -> str:
        """What the run needs before it can go on, for people."""
        return ", ".join(sorted(self._futures)) or "nothing in flight"

    # Submitting

    def _open(self) -> None:
        """Start simulators, learn their spec, build the policy and begin to serve."""
        for replicas in self.assignments.values():
            for assignment in replicas:
                if assignment.stage.kind != "simulation":
                    self._submit(f"{assignment.worker}-warm", tasks.warm, assignment)
        for simulation in self.graph.of_kind("simulation"):
            for assignment in self.assignments[simulation.name]:
                spec = self._wait(self._submit(f"{assignment.worker}-start", tasks.probe, assignment))
        self.assignments = {
            name: [attrs.evolve(assignment, spec=spec) for assignment in replicas]
            for name, replicas in self.assignments.items()
        }
        first = self._submit(
            f"{self.trainer.name}-0-start", tasks.first_weights, self.assignments[self.trainer.name][0]
        )
        self._publish(first)
        self._wait_done(first)

    def _pump(self) -> None:
        """Submit everything that may start now."""
        for batch in self.admission.grant(self.version):
            self._chains[batch] = self._roll(batch)
        key = self._training_key
        if key not in self._futures and self.version in self._chains:
            ports = self._ports(self.trainer, self._chains[self.version])
            assignment = self.assignments[self.trainer.name][0]
            self._submit(key, tasks.train, assignment, self.version, ports)

    def _roll(self, batch: int) -> dict[str, Any]:
        """Submit the rollout of one batch and the item stages that follow it; stage -> its output."""
        outputs: dict[str, Any] = {}
        for simulation in self.graph.of_kind("simulation"):
            replicas = self.assignments[simulation.name]
            windows = self.plan.stage(self.trainer.name).batch_size
            for number, assignment in enumerate(replicas):
                share = windows // len(replicas) + (number < windows % len(replicas))
                future = self._submit(
                    f"{assignment.worker}-{batch}",
                    tasks.advance,
                    assignment,
                    batch,
                    share,
                    self.admission.min_version(batch),
                )
                outputs.setdefault(simulation.name, []).append(future)
        for name in self.plan.item_stages:
            node = self.graph.nodes[name]
            streams = [edge for edge in self.graph.inputs(name) if not edge.latest]
            if name == self.trainer.name or not streams or any(edge.source not in outputs for edge in streams):
                continue
            if batch % int(node.options.get("every", 1)) == 0:
                outputs[name] = [self._call(node, batch, outputs)]
        return outputs

    def _call(self, node: Node, iteration: int, outputs: Mapping[str, Any]) -> Future[Any]:
        assignment = self.assignments[node.name][iteration % len(self.assignments[node.name])]
        ports = self._ports(node, outputs)
        return self._submit(f"{assignment.worker}-{iteration}", tasks.call, assignment, iteration, ports)

    def _ports(self, node: Node, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Input port -> futures: of this iteration for streams, the newest for registers."""
        ports: dict[str, Any] = {}
        for edge in self.graph.inputs(node.name):
            ports[edge.input] = self._newest(edge) if edge.latest else _merged(self.client, outputs[edge.source])
        return ports

    def _newest(self, edge: Edge) -> Future[Any]:
        return self._published[max(self._published)]

    def _publish(self, weights: Future[Any]) -> None:
        """Hand new weights to everybody who reads them."""
        self._published[self.version] = weights
        for old in [version for version in self._published if version < self.version - 1]:
            del self._published[old]
        for generation in self.graph.of_kind("generation"):
            for assignment in self.assignments[generation.name]:
                self._submit(f"{assignment.worker}-{self.version}", tasks.serve, assignment, weights)
        for judge in self._judges():
            if self.version > 0 and self.version % int(judge.options["every"]) == 0:
                self._call(judge, self.version, {})

    def _judges(self) -> list[Node]:
        """Stages that read registers only, such as an evaluation: new weights set them off."""
        return [
            self.graph.nodes[name]
            for name in self.plan.item_stages
            if name != self.trainer.name and all(edge.latest for edge in self.graph.inputs(name))
        ]

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
        self._futures[key] = future
        future.add_done_callback(lambda _: self._news.put(("done", key)))
        return future

    # News

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        self._news.put(("told", event[1]))

    def _next(self) -> str:
        """Handle news until a task is done; its key. TimeoutError past the deadline that `hurry` set."""
        while True:
            left_s = math.inf if self._deadline_s is None else self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"still waiting for {self.waiting_for()}")
            try:
                kind, value = self._news.get(timeout=min(left_s, _WAITING_S))
            except Empty:
                self.emit("waiting", tasks=self.waiting_for())
                continue
            if kind == "told":
                self._told(value)
                continue
            if (future := self._futures.get(value)) is None:
                continue
            if future.status != "finished":
                raise self._explain(value, future)
            if not value.startswith(f"{self.trainer.name}-"):
                self._futures.pop(value)
            return str(value)

    def _wait(self, future: Future[Any]) -> Any:
        """The result of a control task; other news is handled meanwhile."""
        self._wait_done(future)
        return future.result()

    def _wait_done(self, future: Future[Any]) -> None:
        while future.status == "pending":
            if (key := self._next()) == self._training_key:
                self._trained(key)
        if future.status != "finished":
            raise self._explain(str(future.key), future)

    def _told(self, news: dict[str, Any]) -> None:
        kind = news.pop("kind")
        if kind == "rollout":
            self._rolled(news)
        elif kind == "generation":
            self._generation = {
                f"idle/{news['stage']}": news["idle"],
                f"{news['stage']}/batch_size": news["batch_size"],
            }
            self.times["generation_cpu_s"] = news["cpu_s"]
        elif kind == "training":
            self._count_training(news)
        elif kind == "report":
            self._reported(news)
        elif kind == "resident":
            self._is_resident(news)
        else:
            del news["worker"]  # Dask adds the address of the worker that spoke
            self.emit(kind, **news)

    def _rolled(self, news: dict[str, Any]) -> None:
        for fields in news["episodes"]:
            self.episodes.add(Episode(*fields))
        # By replica: a batch that was lost with its worker is rolled out, and told, again.
        self._steps[news["batch"]][news["replica"]] = news["env_steps"]
        self.times["engine_cpu_s"] += news["engine_cpu_s"]
        self.times["simulator_cpu_s"] += news["simulator_cpu_s"]
        stats = self._stats[news["batch"]]
        stats[f"idle/{news['stage']}"] = news["idle"]
        stats["queue_depth"] = stats.get("queue_depth", 0) + news["queue_depth"]

    def _count_training(self, news: dict[str, Any]) -> None:
        self.max_staleness_seen = max(self.max_staleness_seen, news["staleness_max"])
        self.times["training_cpu_s"] += news["cpu_s"]
        self.times["train_s"] = news["train_s"]
        self.stopping = self.stopping or news["stop"]
        stats = self._stats[news["iteration"]]
        stats |= {f"{news['stage']}/{name}": value for name, value in news["metrics"].items()}
        stats |= {"staleness_mean": news["staleness_mean"], "staleness_max": news["staleness_max"]}

    def _reported(self, news: dict[str, Any]) -> None:
        if news["metrics"]:
            self.last_report[news["stage"]] = news["metrics"]
            self.emit("report", stage=news["stage"], iteration=news["iteration"], metrics=news["metrics"])
        if news["stop"] and self.stopping is None:
            self.stopping = news["stop"]
            self.emit("stopping", reason=news["stop"])
            if (published := self._published.get(news["iteration"])) is not None:
                self.goal_weights = published.result()

    def _is_resident(self, news: dict[str, Any]) -> None:
        replica, pid = news["replica"], news["pid"]
        if replica in self._residents:
            self.emit("worker_replaced", worker=replica, cause=f"process {self._residents[replica]} ended")
        self._residents[replica] = pid

    def _trained(self, key: str) -> Iteration:
        """Weights of a new version exist: publish them, release what produced them, account for it."""
        iteration = self.version
        self._chains.pop(iteration)
        self.version += 1
        self._publish(self._futures.pop(key))
        now = time.monotonic()
        wall_s, self._last_s = now - self._last_s, now
        stats = self._stats.pop(iteration)
        steps = sum(self._steps.pop(iteration, {}).values())
        self.env_steps += steps
        stats |= self._generation | self.episodes.stats
        stats |= {
            "iteration": iteration,
            "version": self.version,
            "env_steps": self.env_steps,
            "env_steps_per_s": steps / max(wall_s, 1e-9),
            f"idle/{self.trainer.name}": max(0.0, 1.0 - self.times["train_s"] / max(wall_s, 1e-9)),
            "wall_s": now - self._began_s,
        }
        self.emit("iteration", **stats)
        return Iteration(iteration, stats)

    def _last_calls(self) -> None:
        """Let the calls of item stages that are under way end, and judge the final weights."""
        judges = self._judges()
        for judge in judges:
            if self.stopping is None and self.version % int(judge.options["every"]):
                self._call(judge, self.version, {})
        names = {judge.name for judge in judges}
        while self.goal_weights is None and any(_stage_of(key) in names for key in self._futures):
            self._next()

    def _explain(self, key: str, future: Future[Any]) -> EbrlError:
        """Why a task failed, as an error for the user."""
        error = future.exception() if future.status == "error" else None
        if isinstance(error, EbrlError):
            return error
        stage = _stage_of(key)
        if isinstance(error, KilledWorker):
            return StageError(
                f"its worker process was killed {error.allowed_failures + 1} times while it ran {key}",
                where=stage,
                hint="out of memory is the usual cause; see the logs in the run directory",
            )
        if isinstance(error, NoValidWorkerError) or future.status in ("cancelled", "lost"):
            return StageError(f"task {key} lost its worker and found no other", where=stage)
        return StageError(f"{type(error).__name__}: {error}", where=stage)

    def _restore(self, counters: Mapping[str, Any]) -> None:
        self.version = counters["version"]
        self.env_steps = counters["env_steps"]
        self.max_staleness_seen = counters["max_staleness_seen"]
        self.episodes.restore(counters["episodes"])

    def rate(self) -> float:
        """Environment steps per second, from the first rollout on."""
        return (self.env_steps - self._steps_before) / max(self._last_s - self._began_s, 1e-9)

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds by what they were spent on."""
        return {
            "simulation": self.times["simulator_cpu_s"],
            "generation": self.times["generation_cpu_s"],
            "training": self.times["training_cpu_s"],
            "engine": self.times["engine_cpu_s"],
        }

    @property
    def has_weights(self) -> bool:
        """Whether there is anything yet that a checkpoint could keep."""
        return any(future.status == "finished" for future in self._published.values())

    @property
    def _training_key(self) -> str:
        return f"{self.trainer.name}-{self.version}"

    @property
    def _any(self) -> Assignment:
        return self.assignments[self.trainer.name][0]


def _stage_of(key: str) -> str:
    """``evaluate-0-10`` and ``train_ppo-3`` name their stage first."""
    return key.rsplit("-", 2)[0]


def _merged(client: Client, outputs: Any) -> Any:
    """The outputs of all replicas as one value."""
    if isinstance(outputs, list) and len(outputs) > 1:
        return client.submit(_concatenate, outputs, pure=False, key=f"gather-{outputs[0].key}")
    return outputs[0] if isinstance(outputs, list) else outputs


def _concatenate(parts: list[list[Any]]) -> list[Any]:
    return [item for part in parts for item in part]
