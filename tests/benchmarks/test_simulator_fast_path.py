from __future__ import annotations

import pytest
from report import Report
from simulator_fast_path_results import Comparison, add_to


def comparison(simulator: str, stock_ms: list[float], compiled_ms: list[float]) -> Comparison:
    rounds = {
        side: [{"cpu": value, "wall": 2 * value} for value in values]
        for side, values in (("stock", stock_ms), ("compiled", compiled_ms))
    }
    return Comparison(simulator=simulator, rounds=rounds, control="compiled")


def test_ratios_are_of_the_slow_side_to_the_fast_one_within_each_round() -> None:
    # The second round ran on a machine of half the speed.
    found = comparison("robosuite:Door?controller=OSC_POSE", [9.0, 18.0], [3.0, 6.0])
    assert found.ratio("cpu").text(".2f") == "3.00 [3.00 .. 3.00]"
    assert found.line == "Door, OSC_POSE: stock 13.50 ms, compiled 4.50 ms of CPU, ratio 3.00 [3.00 .. 3.00]; compiled"


@pytest.mark.parametrize("judged", [True, False])
def test_goals_are_those_of_the_simulators_that_were_there(judged: bool) -> None:
    report = Report(name="example", command="")
    steps = [
        comparison("robosuite:Lift?controller=OSC_POSE", [9.0], [3.0]),
        comparison("robosuite:Door?controller=OSC_POSE", [9.0], [3.0]),
    ]
    add_to(report, {"steps": ("One step", steps), "images": ("One image", [])}, judged=judged)
    assert [goal.name for goal in report.goals] == [
        "Lift, OSC_POSE, CPU of a stock step over that of a compiled one"
    ] * judged
    assert all(goal.met for goal in report.goals)
    assert [len(table.rows) for table in report.tables] == [4]
    assert set(report.figures["steps"]) == {found.simulator for found in steps}
