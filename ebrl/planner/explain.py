"""A plan from a profile, and the reasons for it: bottleneck, idle shares, and what more would bring."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import attrs

from ebrl.errors import UsageError
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import SHARED, declared
from ebrl.planner.allocate import SLACK, Answer, allocate
from ebrl.planner.plans import allocation_of, changed, problem_of
from ebrl.planner.predict import Prediction, predict
from ebrl.planner.problem import GENERATION, TRAINING, Device, Node, Problem
from ebrl.planner.profile import Profile
from ebrl.resources.pool import ResourcePool


@attrs.define(frozen=True, kw_only=True)
class Explanation:
    """Why a plan is what it is."""

    prediction: Prediction
    chunk: int
    """Actions of one chunk: environment steps per chunk-step."""
    exact: bool
    more: Mapping[str, float]
    """What one more of a resource would bring, as a share of the rate."""


def profiled_problem(graph: Graph, plan: Plan, pool: ResourcePool, profile: Profile) -> Problem:
    """What the allocator may decide for `graph`, with what `profile` found: costs, and the iteration that they are of.
    Resets are part of what a chunk-step costs."""
    episode = math.inf if profile.episode is None else profile.episode
    problem = problem_of(
        graph,
        plan,
        pool,
        simulation=profile.costs("simulation").with_more(profile.reset_s / episode),
        generation=profile.costs("generation"),
        training=profile.costs("training"),
        iteration=profile.iteration,
        others_core_s=profile.others_core_s,
    )
    return attrs.evolve(
        problem,
        window=profile.window,
        reset_s=profile.reset_s * min(1.0, profile.iteration / episode),
        efficiency=profile.efficiency,
    )


def planned(graph: Graph, plan: Plan, pool: ResourcePool, problem: Problem) -> tuple[Plan, Answer]:
    """`plan` with what the allocator chose, still of epoch 0; as it is where it goes without allocation, or where its
    schedule may not divide the devices that there are.

    UsageError where the costs are of nothing that is here.
    """
    divides = declared(plan.schedule, plan.without).devices == SHARED
    if "allocation" in plan.without or (problem.devices and not divides):
        prediction = as_it_is(problem, plan)
        _check_possible(prediction)
        answer = Answer(allocation=allocation_of(plan, problem), prediction=prediction, exact=True)
        return attrs.evolve(plan, predicted=prediction.rate), answer
    answer = allocate(problem, generation_replicas=allocation_of(plan, problem).generation_replicas, slack=SLACK)
    _check_possible(answer.prediction)
    found = changed(plan, answer.allocation, graph, pool, problem)
    return attrs.evolve(found, epoch=plan.epoch), answer


def _check_possible(prediction: Prediction) -> None:
    stages = (GENERATION, TRAINING, "simulation on devices")
    nowhere = [stage for stage in stages if not prediction.limits.get(stage, 1.0)]
    if nowhere:
        raise UsageError(
            f"the profile knows no costs of the {' and the '.join(nowhere)} on anything that this plan gives them",
            hint="it is of other devices: measure here, with ebrl profile. What a schedule reaches that gives whole "
            "devices to stages, ebrl rehearse finds out",
        )


def explained(problem: Problem, answer: Answer, chunk: int) -> Explanation:
    """The reasons for `answer`, and the gain of one more core, of 10 % more of every device, of one more device."""
    rate = answer.prediction.rate
    replicas = answer.allocation.generation_replicas
    more = {
        name: allocate(larger, generation_replicas=replicas).prediction.rate / rate - 1
        for name, larger in _larger(problem)
    }
    return Explanation(prediction=answer.prediction, chunk=chunk, exact=answer.exact, more=more)


def as_it_is(problem: Problem, plan: Plan) -> Prediction:
    """What `plan` should reach."""
    return predict(problem, allocation_of(plan, problem))


def _larger(problem: Problem) -> Iterator[tuple[str, Problem]]:
    first, *others = problem.nodes

    def with_first(node: Node) -> Problem:
        return attrs.evolve(problem, nodes=(node, *others))

    yield "one more core", with_first(attrs.evolve(first, cores=(*first.cores, max(first.cores) + 1)))
    if first.devices:
        costs = {name: getattr(problem, name) for name in ("simulation", "generation", "training")}
        yield (
            "devices 10 % larger",
            attrs.evolve(
                problem,
                **{
                    name: attrs.evolve(
                        cost,
                        tables={
                            resource: table if resource == "cpu" else table.corrected(1 / 1.1)
                            for resource, table in cost.tables.items()
                        },
                    )
                    for name, cost in costs.items()
                },
            ),
        )
        one: Device = attrs.evolve(first.devices[0], uuid="one more")
        yield "one more device", with_first(attrs.evolve(first, devices=(*first.devices, one)))
