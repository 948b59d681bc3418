"""Run: a workflow at work, as a context manager that iterates over its training iterations."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import cloudpickle
import distributed.gc
from safetensors.numpy import save_file

from ebrl.errors import EbrlError, Interrupted, UsageError
from ebrl.graph.items import Weights
from ebrl.graph.load import loading
from ebrl.graph.model import Graph, PolicyRef
from ebrl.graph.plan import Plan, StagePlan, replica_cores
from ebrl.graph.source import caller_place
from ebrl.observe.events import Event, Observer
from ebrl.observe.recorder import RunRecorder
from ebrl.observe.run_directory import RunConfig, RunDirectory
from ebrl.planner.allocate import first_plan, may_bind, stage_cores
from ebrl.resources.pool import ResourcePool
from ebrl.runtime import checkpoint
from ebrl.runtime.assignment import Assignment, program
from ebrl.runtime.cluster import Cluster, WorkerSpec
from ebrl.runtime.driver import Driver, Iteration

CHECKPOINT_EVERY = 10  # iterations
_PATIENCE_S = 5.0  # for the last checkpoint of an interrupted run; Ctrl-C must end within 10 s
INSIDE = "EBRL_WORKER"  # environment variable of stage workers and what they start: no run may begin there


def launch(
    graph: Graph,
    *,
    run_dir: str | Path | None = None,
    schedule: str = "ebrl",
    scheduler: str | None = None,
    seed: int = 0,
    resume: str | Path | None = None,
    observers: Sequence[Observer] = (),
) -> Run:
    """Prepare a run of `graph`; it starts when the returned `Run` is entered.

    run_dir: where everything about the run is kept; default ``runs/<workflow>-<time>``.
    schedule: ``ebrl`` has no barriers, ``sync`` has all of them.
    scheduler: address of a Dask scheduler whose nodes run ``ebrl worker``; None starts a cluster here.
    seed: the source of all randomness; a resumed run keeps its own.
    resume: directory of an earlier run, which goes on from its newest checkpoint.
    observers: called with every `Event`.

    Raises UsageError when called while a workflow file is being imported.
    """
    if loading.get() or INSIDE in os.environ:
        raise UsageError(
            "a run would start while the workflow file is imported",
            where="ebrl.launch",
            place=caller_place(),
            hint='put it under `if __name__ == "__main__":`',
        )
    return Run(graph, run_dir, schedule, scheduler, seed, resume, observers)


class Run:
    """``with ebrl.launch(graph) as run: for iteration in run: ...``"""

    def __init__(
        self,
        graph: Graph,
        run_dir: str | Path | None,
        schedule: str,
        scheduler: str | None,
        seed: int,
        resume: str | Path | None,
        observers: Sequence[Observer],
    ) -> None:
        self.graph = graph
        self.seed = seed
        self.plan: Plan
        self.dashboard_link = ""
        self.summary: dict[str, Any] | None = None
        self._options = (run_dir, schedule, scheduler, resume)
        self._observers = list(observers)
        self._stack = contextlib.ExitStack()
        self._cluster: Cluster
        self._driver: Driver
        self._last_checkpoint: Path | None = None
        self._wishes = threading.Event()
        self._began_s = time.monotonic()

    @property
    def run_dir(self) -> Path:
        return self._directory.path

    def __enter__(self) -> Run:
        try:
            self._catch_signals()
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            if self.summary is None:
                self._end("interrupted" if error is None else _status(error), str(error or "left early"))
        except KeyboardInterrupt:
            self._kill()
            raise
        finally:
            self._stack.close()

    def __iter__(self) -> Iterator[Iteration]:
        driver = self._driver
        try:
            for iteration in driver.iterations():
                if driver.version % CHECKPOINT_EVERY == 0:
                    self._checkpoint()
                yield iteration
            self._end("finished", driver.stopping or "all iterations are done")
        except KeyboardInterrupt:
            self._interrupted()
        except EbrlError as error:
            self._end("failed", error.message)
            raise

    # Start

    def _catch_signals(self) -> None:
        """SIGTERM (a batch system's word) and SIGHUP (a closed terminal) end the run in order, as Ctrl-C does.

        Python drops and prints what is raised in a callback of the garbage collector, and Dask has one: there
        the wish is only noted. The driver looks at the note.
        """

        def note(number: int, frame: FrameType | None) -> None:
            self._wishes.set()
            while frame is not None:
                if frame.f_code.co_filename == distributed.gc.__file__:
                    return
                frame = frame.f_back
            raise KeyboardInterrupt

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._stack.callback(signal.signal, number, signal.signal(number, note))

    def _start(self) -> None:
        run_dir, schedule, scheduler, resume = self._options
        run = secrets.token_hex(4)
        self._cluster = self._stack.enter_context(Cluster(scheduler))
        pools = self._cluster.pools()
        nodes = sorted(pools, key=lambda node: (len(pools[node].gpus), len(pools[node].cores)), reverse=True)
        self.plan = first_plan(self.graph, pools[nodes[0]], schedule)
        saved = self._open_directory(run_dir, schedule, scheduler, resume)
        label = "" if scheduler is None else f"{run}:"
        places = place(self.plan, nodes)
        assignments = self._assignments(run, label, saved, places, pools)
        workers = {
            replica.worker: _worker(self.plan, replica) for replicas in assignments.values() for replica in replicas
        }
        self._cluster.launch(
            {
                node: [worker for name, worker in workers.items() if places[name] == node]
                for node in set(places.values())
            }
        )
        self.dashboard_link = self._cluster.dashboard_link
        self._driver = Driver(
            self.graph,
            self.plan,
            self._cluster.client,
            assignments,
            emit=self._emit,
            restored=saved,
            interrupted=self._wishes,
        )
        self._emit(
            "started",
            plan=self.plan,
            dashboard_link=self.dashboard_link,
            run_dir=str(self.run_dir),
            workers={worker.name: dict(worker.resources) for worker in workers.values()},
        )

    def _open_directory(
        self, run_dir: str | Path | None, schedule: str, scheduler: str | None, resume: str | Path | None
    ) -> checkpoint.Checkpoint | None:
        if resume is not None:
            self.seed = RunConfig.read(Path(resume)).seed
        config = RunConfig.of(self.graph, seed=self.seed, schedule=schedule, scheduler=scheduler)
        if resume is None:
            self._directory = RunDirectory.create(config, run_dir)
            saved = None
        else:
            saved = checkpoint.newest(Path(resume) / "checkpoints", self.graph.name)
            self._directory = RunDirectory.reopen(resume, iteration=saved.iteration - 1, config=config)
        recorder = RunRecorder(self._directory, first_iteration=saved.iteration if saved else 0)
        self._stack.callback(recorder.close)
        self._observers.insert(0, recorder)
        return saved

    def _assignments(
        self,
        run: str,
        label: str,
        saved: checkpoint.Checkpoint | None,
        places: Mapping[str, str],
        pools: Mapping[str, ResourcePool],
    ) -> dict[str, list[Assignment]]:
        simulations = [self.plan.stage(node.name) for node in self.graph.of_kind("simulation")]
        packed_program = cloudpickle.dumps(program(self.graph.of_kind("simulation")[0]))

        def assignment(stage: StagePlan, replica: int) -> Assignment:
            node, here = self.graph.nodes[stage.name], places[f"{stage.name}-{replica}"]
            if stage.kind == "simulation":
                # The plan was made for the node that trains; these are the cores of the node that simulates.
                pool = pools[here]
                quota = attrs.evolve(stage.quota, cores=stage_cores(node, pool), bound=may_bind(node, pool))
                beside = [other for other in range(stage.replicas) if places[f"{stage.name}-{other}"] == here]
                cores = replica_cores(attrs.evolve(stage, quota=quota), replica, beside)
                stage = attrs.evolve(stage, quota=attrs.evolve(quota, cores=cores))
            return Assignment(
                run=run,
                label=label,
                stage=stage,
                replica=replica,
                packed_node=cloudpickle.dumps(node),
                packed_program=packed_program,
                source_file=node.stage.function.__code__.co_filename,
                seed=self.seed,
                chunk=_chunk(self.graph),
                request_size=max(
                    (other.batch_size for other in self.plan.stages if other.kind == "generation"), default=1
                ),
                max_staleness=self.plan.max_staleness,
                step_barrier=self.plan.step_barrier,
                path=[self.graph.folder] if self.graph.folder else [],
                log_folder=None if here else str(self.run_dir / "logs"),
                sources={worker: places[worker] != here for source in simulations for worker in source.workers()}
                if stage.kind == "generation"
                else {},
                restored=_of_stage(saved, stage) if saved is not None else {},
            )

        return {
            stage.name: [assignment(stage, replica) for replica in range(stage.replicas)] for stage in self.plan.stages
        }

    # End

    def _interrupted(self) -> None:
        """Ctrl-C: keep what can be kept; a second Ctrl-C ends everything at once."""
        self._wishes.clear()  # a second wish raises where the run ends
        try:
            self._emit("stopping", reason="interrupted; saving a checkpoint (Ctrl-C again to leave at once)")
            self._end("interrupted", "Ctrl-C")
        except KeyboardInterrupt:
            self._kill()
        count = self._driver.version
        where = f"; ebrl run --resume {self.run_dir} continues" if self._last_checkpoint else ""
        raise Interrupted(f"interrupted after {count} iteration{'' if count == 1 else 's'}{where}") from None

    def _kill(self) -> None:
        self._cluster.kill()
        self.summary = {"status": "killed"}

    def _end(self, status: str, reason: str) -> None:
        """Write what remains to be written; the summary comes last."""
        driver = self._driver
        if status == "interrupted":
            driver.hurry(_PATIENCE_S)
        if status != "failed" and driver.has_weights:
            try:
                self._checkpoint()
            except (EbrlError, TimeoutError) as error:
                self._emit("checkpoint_failed", iteration=driver.version, message=str(error))
        policy = self._save_policy(driver.goal_weights or driver.weights()) if status == "finished" else None
        with contextlib.suppress(Exception):  # the scheduler may be gone
            driver.cancel()
        wall_s = time.monotonic() - self._began_s
        account = driver.account
        evaluated = next((report for report in driver.last_report.values() if "success" in report), {})
        self.summary = {
            "status": status,
            "reason": reason,
            "success": evaluated.get("success", account.episodes.success),
            "success_episodes": evaluated.get("episodes"),
            "episodes": account.episodes.episodes,
            "iterations": driver.version,
            "env_steps": account.env_steps,
            "env_steps_per_s": driver.rate(),
            "wall_s": wall_s,
            "max_staleness_seen": account.max_staleness_seen,
            "checkpoint": str(self._last_checkpoint) if self._last_checkpoint else None,
            "policy": str(policy) if policy else None,
            "cpu_s": dict(account.cpu_s),
            "run_dir": str(self.run_dir),
        }
        self._emit("finished", **self.summary)

    def _checkpoint(self) -> None:
        if self._last_checkpoint is not None and int(self._last_checkpoint.name) == self._driver.version:
            return
        saved = self._driver.checkpoint()
        self._last_checkpoint = checkpoint.save(self._directory.checkpoints, saved)
        self._emit("checkpoint", path=str(self._last_checkpoint), iteration=saved.iteration)

    def _save_policy(self, weights: Weights) -> Path:
        path = self.run_dir / "policy.safetensors"
        save_file({name: array.copy() for name, array in weights.arrays.items()}, path)
        return path

    def _emit(self, kind: str, **data: Any) -> None:
        event = Event.now(kind, **data)
        for observer in self._observers:
            observer(event)


def _worker(plan: Plan, assignment: Assignment) -> WorkerSpec:
    """The Dask worker of one stage replica: its annotations, and room for every credit that may wait."""
    threads = {"simulation": plan.max_staleness + 3, "generation": 4}.get(assignment.stage.kind, 1)
    quota = assignment.stage.quota
    resources: dict[str, float] = {"CPU": float(len(quota.cores)), assignment.tag: float(threads)}
    environment = {INSIDE: assignment.tag}
    if assignment.log_folder is not None:
        environment["EBRL_LOGS"] = assignment.log_folder
    if quota.gpus:
        resources["GPU"] = float(len(quota.gpus))
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(quota.gpus)
    return WorkerSpec(
        name=assignment.tag, resources=resources, threads=threads, environment=environment, memory_mib=quota.memory_mib
    )


def place(plan: Plan, nodes: Sequence[str]) -> dict[str, str]:
    """Worker -> node. `nodes` begins with the one that trains and generates; simulation goes to the others first."""
    hosts = [*nodes[1:], nodes[0]]
    return {
        worker: hosts[number % len(hosts)] if stage.kind == "simulation" else nodes[0]
        for stage in plan.stages
        for number, worker in enumerate(stage.workers())
    }


def _of_stage(saved: checkpoint.Checkpoint, stage: StagePlan) -> dict[str, Any]:
    """The part of a checkpoint that one stage needs; the weights go to the trainer alone, as an argument."""
    kept: dict[str, Any] = {"iteration": saved.iteration}
    if stage.kind == "simulation":
        kept["positions"] = saved.positions
    elif stage.name in saved.states:
        kept["state"] = saved.states[stage.name]
    return kept


def _chunk(graph: Graph) -> int:
    """K, the actions of one chunk, as the policy was declared."""
    policies = [
        value for node in graph.nodes.values() for value in node.values.values() if isinstance(value, PolicyRef)
    ]
    return int(policies[0].options.get("chunk", 1)) if policies else 1


def _status(error: BaseException) -> str:
    return "interrupted" if isinstance(error, (KeyboardInterrupt, Interrupted, GeneratorExit)) else "failed"
