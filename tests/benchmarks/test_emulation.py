"""The comparison of emulated and rehearsed schedules: what both are told is the same."""

from __future__ import annotations

import pytest
from emulation import FULL, QUICK, Size, emulated_case, plan_of, rehearsed_rate

from ebrl.graph.plan_file import check_plan
from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.problem import SIMULATION
from ebrl.rehearse.best import best


@pytest.mark.parametrize("size", [QUICK, FULL])
def test_the_machine_is_that_of_the_paper(size: Size) -> None:
    asked, pool = emulated_case(size)
    problem = asked.problem
    assert [device.uuid for device in problem.devices] == [gpu.uuid for gpu in pool.gpus]
    assert (len(pool.cores), len(problem.core_quotas[SIMULATION])) == (8 * size.gpus, 7 * size.gpus)
    assert (problem.environments, problem.iteration) == (8 * size.gpus, 8 * size.gpus * size.window)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_has_a_plan_that_fits_its_devices(schedule: str) -> None:
    asked, pool = emulated_case(QUICK)
    allocation = best(asked.problem, asked.truth, SCHEDULES[schedule])
    graph, plan = plan_of(schedule, asked, allocation, pool)
    check_plan(plan, graph, pool)
    generation, training = plan.of_kind("generation"), plan.of_kind("training")
    assert dict(zip(generation.quota.gpus, generation.quota.sm_percent, strict=True)) == allocation.generation
    assert dict(zip(training.quota.gpus, training.quota.sm_percent, strict=True)) == allocation.training
    assert generation.replicas == len(allocation.generation)
    assert len(plan.of_kind("simulation").quota.cores) == 14
    assert rehearsed_rate(schedule, asked, allocation) == pytest.approx(plan.predicted, rel=0.9)
