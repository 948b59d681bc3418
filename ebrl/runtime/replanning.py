"""Replanning: what a run measures goes to the feedback planner, and what that decides becomes the next plan.

Without a profile the run measures itself: generation is timed over batch sizes and threads before the first chunk, the
other stages in the first iterations (`Learning`). Simulation is then expected to scale with its cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product

import attrs

from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.plan_file import differences
from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.feedback import Decision, FeedbackPlanner, Measurement, mean
from ebrl.planner.learning import Learning
from ebrl.planner.plans import allocation_of, changed, chunks_per_iteration, problem_of
from ebrl.planner.problem import Problem
from ebrl.resources.pool import ResourcePool


def applies(plan: Plan, pools: Sequence[ResourcePool]) -> bool:
    """Whether plans may change while the run goes on: only those of the schedule ``ebrl``, unless it goes without
    allocation; the baselines keep theirs. Results must not depend on timing where no staleness is allowed, and shares
    of devices and of several nodes cannot be changed under way yet."""
    if plan.schedule != "ebrl" or "allocation" in plan.without:
        return False
    return plan.max_staleness > 0 and len(pools) == 1 and not any(stage.quota.gpus for stage in plan.stages)


class Replanning:
    """For the driver's thread. Pure but for `emit`."""

    def __init__(
        self, graph: Graph, plan: Plan, pool: ResourcePool, emit: Callable[..., None], problem: Problem | None = None
    ) -> None:
        """problem: what a profile says; None measures."""
        self._graph, self._plan, self._pool, self._emit = graph, plan, pool, emit
        self._generation: list[Point] = []
        training = plan.of_kind("training").quota
        fixed = graph.of_kind("training")[0].stage.resources.cpus is not None
        self._learning = Learning(planned=training.threads, most=len(training.cores), fixed=fixed)
        self._planner = None if problem is None else self._planner_of(problem)

    @property
    def unknown(self) -> tuple[tuple[int, int], ...]:
        """Batch size and threads of generation calls that must be `timed`; none where a profile knows them."""
        if self._planner is not None:
            return ()
        quota = self._plan.of_kind("generation").quota
        environments = int(self._graph.of_kind("simulation")[0].options["num_envs"])
        batches = sorted({1, max(1, environments // 2), environments})
        return tuple(product(batches, sorted({1, quota.threads, len(quota.cores)})))

    def timed(self, generation: Sequence[Point]) -> None:
        """What the calls cost that were `unknown`."""
        self._generation = list(generation)

    def after(self, measured: Measurement, steps_left: int) -> Plan | None:
        """The plan to go on with after an iteration, where it is another one."""
        before = self._plan
        if self._planner is None:
            self._learn(measured, steps_left)
        else:
            self._planner.steps_left = steps_left + 1
            for decision in self._planner.observe(measured):
                self._follow(decision)
        return None if self._plan is before else self._plan

    def _learn(self, measured: Measurement, steps_left: int) -> None:
        learning = self._learning
        threads = learning.threads
        learning.observe(measured)
        if learning.threads != threads:
            self._train_with(learning.threads)
        if learning.done:
            self._planner = self._planner_of(self._learned())
            self._planner.steps_left = steps_left
            self._follow(self._planner.begin(learning.kept, learning.steps))
        elif learning.threads != threads:
            name = self._plan.of_kind("training").name
            self._emit("learning", stage=name, threads=learning.threads, planned=learning.planned)

    def _train_with(self, threads: int) -> None:
        stages = [
            attrs.evolve(stage, quota=attrs.evolve(stage.quota, threads=threads)) if stage.kind == "training" else stage
            for stage in self._plan.stages
        ]
        self._plan = attrs.evolve(self._plan, stages=tuple(stages))

    def _planner_of(self, problem: Problem) -> FeedbackPlanner:
        present = allocation_of(self._plan, problem)
        return FeedbackPlanner(problem=problem, allocation=present, generation_replicas=present.generation_replicas)

    def _learned(self) -> Problem:
        """The costs as the first iterations showed them."""
        iteration = chunks_per_iteration(self._graph, self._plan)
        cores = len(self._plan.of_kind("simulation").quota.cores)
        simulating_s = cores / mean(self._learning.kept).simulation_rate
        return problem_of(
            self._graph,
            self._plan,
            self._pool,
            simulation=_costs([Point(quota=1, batch=1, seconds=simulating_s, core_s=simulating_s)]),
            generation=_costs(self._generation),
            training=_costs(self._learning.training(iteration)),
            iteration=iteration,
        )

    def _follow(self, decision: Decision) -> None:
        before = self._plan
        if decision.kind in ("replan", "revert"):
            self._adopt(decision)
        self._tell(decision, before)

    def _adopt(self, decision: Decision) -> None:
        assert self._planner is not None
        self._plan = changed(self._plan, decision.new, self._graph, self._pool, self._planner.problem)

    def _tell(self, decision: Decision, before: Plan) -> None:
        numbers = attrs.asdict(decision, filter=lambda field, _: field.name not in ("kind", "old", "new"))
        numbers["measured"] = {**numbers["measured"], "gap": decision.measured.gap}
        changes = list(differences(before, self._plan))
        plan = {"plan": self._plan} if changes else {}
        self._emit(decision.kind, epoch=self._plan.epoch, changes=changes, **numbers, **plan)


def _costs(points: Iterable[Point]) -> StageCosts:
    return StageCosts(tables={CPU: CostTable(points=tuple(points))})
