"""What a stage costs: the time that measuring takes, and one real measurement."""

from __future__ import annotations

import attrs
import pytest

from ebrl.graph.load import load_workflow
from ebrl.planner.profile import Measured
from ebrl.runtime.profiling import Budget, profile

from .conftest import WORKFLOWS


@attrs.define
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_what_a_stage_leaves_is_for_the_others() -> None:
    clock = Clock()
    budget = Budget(began_s=clock(), seconds=90.0, clock=clock)
    budget.divide(3)
    clock.now_s += 30.0
    assert not budget.spent
    clock.now_s += 1.0
    assert budget.spent and budget.used_s == 31.0
    budget.divide(2)
    clock.now_s += 9.0
    budget.divide(1)
    assert not budget.spent
    clock.now_s = 190.0
    assert not budget.spent
    clock.now_s = 200.0
    budget.divide(1)
    clock.now_s += 0.001
    assert budget.spent  # but never negative


def test_one_point_cannot_take_all_the_time() -> None:
    clock = Clock()
    budget = Budget(began_s=clock(), seconds=90.0, clock=clock)
    budget.divide(1)
    assert budget.point() == pytest.approx(130.0)
    clock.now_s = 160.0
    assert budget.point() == pytest.approx(170.0)


@pytest.mark.slow
def test_a_workflow_that_stops_at_once() -> None:
    """Nothing is known then of the stages beside each other."""
    graph = load_workflow(f"{WORKFLOWS}:satisfied").with_settings([])
    found = profile(graph, stages=("training",), budget_s=1.0)
    assert tuple(found.stages) == ("training",)
    assert found.together == {}


@pytest.mark.slow
def test_training_is_measured_with_the_policy_of_the_run() -> None:
    """Which would not survive hundreds of iterations on the same trajectories, nor use them so stale."""
    graph = load_workflow(f"{WORKFLOWS}:eager").with_settings([])
    found = profile(graph, stages=("training",), budget_s=3.0)
    assert sum(point.calls for point in found.stages["training"]) > 50


@pytest.mark.slow
def test_a_stage_alone() -> None:
    """Of a workflow that ends too early for the whole pipeline, and may not record ahead."""
    graph = load_workflow(f"{WORKFLOWS}:small").with_settings(["iterations=2", "max_staleness=0"])
    points: list[tuple[str, Measured]] = []
    phases: list[str] = []
    used_s: list[float] = []
    found = profile(
        graph,
        stages=("generation",),
        budget_s=2.0,
        on_point=lambda stage, point: points.append((stage, point)),
        on_phase=phases.append,
        on_time=used_s.append,
    )
    assert phases == ["the whole pipeline", "generation"]
    assert tuple(found.stages) == ("generation",) == tuple(found.together)
    assert [point for _, point in points] == list(found.stages["generation"])
    assert {stage for stage, _ in points} == {"generation"}
    assert used_s == sorted(used_s) and len(used_s) >= len(points)
    for point in found.stages["generation"]:
        assert point.resource == "cpu" and point.calls >= 3
        assert point.rate == pytest.approx(point.batch / point.seconds)
