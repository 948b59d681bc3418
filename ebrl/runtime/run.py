"""Run: a workflow at work, as a context manager that iterates over its training iterations."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import save_file

from ebrl.errors import EbrlError, Interrupted, UsageError
from ebrl.graph.items import Weights
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.plan_file import check_plan
from ebrl.graph.source import caller_place
from ebrl.observe.events import Event, Observer
from ebrl.observe.recorder import ResumingRecorder, RunRecorder
from ebrl.observe.run_config import RunConfig, changed_parameters
from ebrl.observe.run_directory import RunDirectory
from ebrl.planner.explain import planned, profiled_problem
from ebrl.planner.first_plan import first_plan
from ebrl.planner.problem import Problem
from ebrl.planner.profile import Profile
from ebrl.resources.pool import ResourcePool
from ebrl.runtime import checkpoint
from ebrl.runtime.cluster import Cluster
from ebrl.runtime.driver import Driver, Iteration
from ebrl.runtime.placement import Placement, place, ranked
from ebrl.runtime.replanning import Replanning, applies
from ebrl.runtime.request import Request
from ebrl.runtime.signals import ending_in_order

CHECKPOINT_EVERY = 10  # iterations
_PATIENCE_S = 5.0  # for the last checkpoint of an interrupted run; Ctrl-C must end within 10 s


def launch(
    graph: Graph,
    *,
    run_dir: str | Path | None = None,
    schedule: str | None = None,
    without: Sequence[str] | None = None,
    scheduler: str | None = None,
    seed: int = 0,
    resume: str | Path | None = None,
    plan: Plan | None = None,
    profile: Profile | None = None,
    replan: bool = True,
    resources: ResourcePool | None = None,
    observers: Sequence[Observer] = (),
) -> Run:
    """Prepare a run of `graph`; it starts when the returned `Run` is entered.

    run_dir: where everything about the run is kept; default ``runs/<workflow>-<time>``.
    schedule: one of `ebrl.graph.schedules.SCHEDULES`: ``ebrl`` has no barriers, ``sync`` has all of them; None takes
        that of the plan, or ``ebrl``.
    without: mechanisms that the schedule is to do without, of `ebrl.graph.schedules.MECHANISMS`, to see what each is
        worth; None takes those of the plan, or none.
    scheduler: address of a Dask scheduler whose nodes run ``ebrl worker``; None starts a cluster here.
    seed: the source of all randomness; a resumed run keeps its own.
    resume: directory of an earlier run, which goes on from its newest checkpoint.
    plan: the plan to begin with, see `ebrl.graph.plan_file`; None makes one.
    profile: costs of the stages, see `ebrl.runtime.profiling`: the plan is made from them, and corrected by them.
    replan: whether the plan may change while the run goes on, see `ebrl.planner.feedback`. Where no staleness is
        allowed it never does: results then do not depend on timing.
    resources: the part of this machine to use, ``ResourcePool.discover(cores="0-7")``; None is all of it.
    observers: called with every `Event`.

    Raises UsageError for arguments that fit nothing, and when called while a workflow file is being imported.
    """
    request = Request(
        graph=graph,
        run_dir=run_dir,
        schedule=schedule or ("ebrl" if plan is None else plan.schedule),
        without=without if without is not None else () if plan is None else plan.without,
        scheduler=scheduler,
        seed=seed,
        resume=resume,
        plan=plan,
        profile=profile,
        replan=replan,
        resources=resources,
    )
    request.check(caller_place())
    return Run(request, observers)


class Run:
    """``with ebrl.launch(graph) as run: for iteration in run: ...``"""

    def __init__(self, request: Request, observers: Sequence[Observer]) -> None:
        self.graph = request.graph
        self.seed = request.seed
        self.dashboard_link = ""
        self.summary: dict[str, Any] | None = None
        self._request = request
        self._observers = list(observers)
        self._stack = contextlib.ExitStack()
        self._directory: RunDirectory
        self._plan: Plan
        self._cluster: Cluster
        self._driver: Driver
        self._iterations: Iterator[Iteration] | None = None
        self._entered = False
        self._last_checkpoint: Path | None = None
        self._changes = ""
        self._wishes = threading.Event()
        self._began_s = time.monotonic()

    @property
    def plan(self) -> Plan:
        """The one in force."""
        self._need_start()
        return self._driver.plan

    @property
    def driver(self) -> Driver:
        """For those who measure a run."""
        self._need_start()
        return self._driver

    @property
    def run_dir(self) -> Path:
        self._need_start()
        return self._directory.path

    def __enter__(self) -> Run:
        if self._entered:
            raise UsageError(
                "this run was started before",
                where="ebrl.launch",
                place=caller_place(),
                hint="a Run runs once; call ebrl.launch again for another one",
            )
        self._entered = True
        try:
            self._stack.enter_context(ending_in_order(self._wishes))
            self._start()
        except KeyboardInterrupt:
            with contextlib.suppress(KeyboardInterrupt):  # somebody does not want to wait for it
                self._stack.close()
            raise Interrupted("interrupted while the run started") from None
        except BaseException:
            self._stack.close()
            raise
        self._iterations = self._iterate()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._iterations = None
        try:
            if self.summary is None:
                self._end("interrupted" if error is None else _status(error), str(error or "left early"))
        except KeyboardInterrupt:
            self._kill()
            raise
        finally:
            self._stack.close()

    def __iter__(self) -> Iterator[Iteration]:
        """The iterations that are still to come: a second loop goes on where the first one was left."""
        self._need_start()
        if self._iterations is None:
            raise UsageError(
                "this run has ended with its `with` block",
                where="ebrl.launch",
                place=caller_place(),
                hint=f"iterate inside the block, or continue: ebrl.launch(graph, resume={str(self.run_dir)!r})",
            )
        return self._iterations

    def _iterate(self) -> Iterator[Iteration]:
        driver = self._driver
        first = driver.version
        try:
            for iteration in driver.iterations():
                if driver.version % CHECKPOINT_EVERY == 0:
                    self._checkpoint()
                yield iteration
            self._end("finished", driver.stopping or "all iterations are done")
        except KeyboardInterrupt:
            self._interrupted()
        except EbrlError as error:
            if self._changes and driver.version == first:
                changes = f"since that checkpoint was made, these parameters changed: {self._changes}"
                error.hint = f"{error.hint}; {changes}" if error.hint else changes
            self._end("failed", error.message)
            raise

    def _need_start(self) -> None:
        if not self._entered:
            raise UsageError(
                "this run has not been started",
                where="ebrl.launch",
                place=caller_place(2),
                hint="write `with ebrl.launch(graph) as run:` and use it inside",
            )

    # Start

    def _start(self) -> None:
        scheduler = self._request.scheduler
        saved = self._claim_directory()
        self._cluster = self._stack.enter_context(Cluster(scheduler, self._request.resources))
        pools = self._cluster.pools()
        nodes = ranked(pools)
        self._plan, problem = self._first_plan(pools[nodes[0]])
        replanning = None
        if self._request.replan and applies(self._plan, list(pools.values())):
            replanning = Replanning(self.graph, self._plan, pools[nodes[0]], self._emit, problem)
        config = RunConfig.of(
            self.graph,
            seed=self.seed,
            schedule=self._plan.schedule,
            without=self._plan.without,
            scheduler=scheduler,
        )
        self._record(config, saved)
        run = secrets.token_hex(4)
        placement = Placement(
            graph=self.graph, plan=self._plan, pools=pools, places=place(self._plan, nodes), home=nodes[0]
        )
        assignments = placement.assignments(
            run=run,
            label="" if scheduler is None else f"{run}:",
            seed=self.seed,
            logs=str(self.run_dir / "logs"),
            saved=saved,
        )
        workers = placement.workers(assignments)
        self._cluster.launch(workers)
        self.dashboard_link = self._cluster.dashboard_link
        self._driver = Driver(
            self.graph,
            self._plan,
            self._cluster.client,
            assignments,
            emit=self._emit,
            restored=saved,
            interrupted=self._wishes,
            replanning=replanning,
        )
        self._emit(
            "started",
            plan=self._plan,
            dashboard_link=self.dashboard_link,
            run_dir=str(self.run_dir),
            workers={worker.name: dict(worker.resources) for specs in workers.values() for worker in specs},
        )

    def _first_plan(self, pool: ResourcePool) -> tuple[Plan, Problem | None]:
        """The plan to begin with, and what a profile says of the costs."""
        given, profile = self._request.plan, self._request.profile
        if given is not None:
            check_plan(given, self.graph, pool)
            return given, None
        plan = first_plan(self.graph, pool, self._request.schedule, self._request.without)
        if profile is None:
            return plan, None
        problem = profiled_problem(self.graph, plan, pool, profile)
        return planned(self.graph, plan, pool, problem)[0], problem

    def _claim_directory(self) -> checkpoint.Checkpoint | None:
        """Hold the run directory until the end; the checkpoint to go on from."""
        resume = self._request.resume
        if resume is None:
            held = RunDirectory.claim(self.graph.name, self._request.run_dir)
            self._directory = self._stack.enter_context(held)
            return None
        self._directory = self._stack.enter_context(RunDirectory.reclaim(resume))
        saved = checkpoint.newest(self._directory.checkpoints, self.graph.name)
        self._last_checkpoint = checkpoint.path(self._directory.checkpoints, saved.iteration)
        self.seed = self._directory.config.seed
        return saved

    def _record(self, config: RunConfig, saved: checkpoint.Checkpoint | None) -> None:
        """Keep the run in its directory from now on; an earlier run there only once this one gets anywhere."""
        recorder: RunRecorder | ResumingRecorder
        if saved is None:
            self._directory.begin(config)
            recorder = RunRecorder(self._directory)
        else:
            checkpoint.check_fit(saved, self.graph, self._plan)
            self._changes = changed_parameters(self._directory.config, config)
            recorder = ResumingRecorder(self._directory, config, iteration=saved.iteration)
        self._stack.callback(recorder.close)
        self._observers.insert(0, recorder)

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
        where = ""
        if (saved := self._last_checkpoint) is not None:
            older = "" if int(saved.name) == count else f" from iteration {int(saved.name)}"
            where = f"; ebrl run --resume {self.run_dir} continues{older}"
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
        try:
            save_file({name: array.copy() for name, array in weights.arrays.items()}, path)
        except (OSError, SafetensorError) as error:
            raise EbrlError(f"the final weights cannot be written: {error}") from error
        return path

    def _emit(self, kind: str, **data: Any) -> None:
        event = Event.now(kind, **data)
        for observer in self._observers:
            observer(event)


def _status(error: BaseException) -> str:
    return "interrupted" if isinstance(error, (KeyboardInterrupt, Interrupted, GeneratorExit)) else "failed"
