"""Replanning: what a run measures goes to the feedback planner, and what that decides becomes the next plan.

Without a profile the run measures itself: generation is timed over batch sizes before the first chunk, the other
stages in the first iterations. Nothing else is taken for granted: simulation is expected to scale with its cores and
training not to gain from more threads, until a profile says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.plan_file import differences
from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.feedback import Decision, FeedbackPlanner, Measurement
from ebrl.planner.plans import allocation_of, changed, chunks_per_iteration, problem_of
from ebrl.planner.predict import predict
from ebrl.planner.problem import Problem
from ebrl.resources.pool import ResourcePool

LEARN = 5
"""Iterations that a run without a profile learns from; those before them still start things."""
SKIP = 2


def applies(plan: Plan, pools: Sequence[ResourcePool]) -> bool:
    """Whether plans may change while the run goes on: results must not depend on timing where no staleness is
    allowed, and shares of devices and of several nodes cannot be changed under way yet."""
    return plan.max_staleness > 0 and len(pools) == 1 and not any(stage.quota.gpus for stage in plan.stages)


class Replanning:
    """For the driver's thread. Pure but for `emit`."""

    def __init__(
        self, graph: Graph, plan: Plan, pool: ResourcePool, emit: Callable[..., None], problem: Problem | None = None
    ) -> None:
        """problem: what a profile says; None measures."""
        self._graph, self._plan, self._pool, self._emit = graph, plan, pool, emit
        self._generation: list[tuple[int, float]] = []
        self._first: list[Measurement] = []
        self._planner: FeedbackPlanner | None = None
        if problem is not None:
            self._begin(problem)

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes of generation that must be `timed`; none where a profile knows them."""
        if self._planner is not None:
            return ()
        environments = int(self._graph.of_kind("simulation")[0].options["num_envs"])
        return tuple(sorted({1, max(1, environments // 2), environments}))

    def timed(self, generation: Sequence[tuple[int, float]]) -> None:
        """What generation calls take, by batch size."""
        self._generation = list(generation)

    def after(self, measured: Measurement, steps_left: int) -> Plan | None:
        """The plan to go on with after an iteration, where it is another one."""
        if self._planner is None:
            self._first.append(measured)
            if len(self._first) >= SKIP + LEARN:
                self._begin(self._learned())
            return None
        self._planner.steps_left = steps_left + 1
        before = self._plan
        for decision in self._planner.observe(measured):
            if decision.kind in ("replan", "revert"):
                self._adopt(decision)
            self._tell(decision, before)
        return None if self._plan is before else self._plan

    def _begin(self, problem: Problem) -> None:
        self._planner = FeedbackPlanner(
            problem=problem,
            allocation=(present := allocation_of(self._plan, problem)),
            generation_replicas=present.generation_replicas,
        )

    def _learned(self) -> Problem:
        """The costs as the first iterations showed them."""
        plan, kept = self._plan, self._first[SKIP:]
        iteration = chunks_per_iteration(self._graph, plan)
        stages = {stage.kind: stage for stage in plan.stages}

        def mean_s(name: str) -> float:
            return sum(1.0 / float(getattr(entry, name)) for entry in kept) / len(kept)

        simulating_s = len(stages["simulation"].quota.cores) * mean_s("simulation_rate")
        training = stages["training"].quota.threads
        trained_s = iteration * mean_s("training_rate")
        return problem_of(
            self._graph,
            plan,
            self._pool,
            simulation=_costs(Point(quota=1, batch=1, seconds=simulating_s, core_s=simulating_s)),
            generation=_costs(
                *(
                    Point(quota=stages["generation"].quota.threads, batch=batch, seconds=taken_s, core_s=taken_s)
                    for batch, taken_s in self._generation
                )
            ),
            training=_costs(Point(quota=training, batch=iteration, seconds=trained_s, core_s=trained_s * training)),
            iteration=iteration,
        )

    def _adopt(self, decision: Decision) -> None:
        assert self._planner is not None
        predicted = predict(self._planner.problem, decision.new)
        self._plan = changed(self._plan, decision.new, self._graph, self._pool, predicted)

    def _tell(self, decision: Decision, before: Plan) -> None:
        numbers = attrs.asdict(decision, filter=lambda field, _: field.name not in ("kind", "old", "new"))
        numbers["measured"] = {**numbers["measured"], "gap": decision.measured.gap}
        changes = list(differences(before, self._plan))
        plan = {"plan": self._plan} if changes else {}
        self._emit(decision.kind, epoch=self._plan.epoch, changes=changes, **numbers, **plan)


def _costs(*points: Point) -> StageCosts:
    return StageCosts(tables={CPU: CostTable(points=points)})
