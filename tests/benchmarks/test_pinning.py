from __future__ import annotations

from typing import Any

import pytest
from pinning_results import COSTS, Condition, add_to
from report import Report

from ebrl.backends.registry import parse_uri
from ebrl.backends.simulators.emulated import emulated


def result(rate: float, ms: float) -> dict[str, Any]:
    return {"env_steps_per_s": rate, "chunk_ms": {"mean": ms, "P50": ms, "P99": 2 * ms}}


def condition(unbound: list[float], bound: list[float]) -> Condition:
    rounds = {
        "os": [result(100.0, 40.0) for _ in bound],
        "dispatched": [result(rate, 4000 / rate) for rate in unbound],
        "bound": [result(rate, 4000 / rate) for rate in bound],
    }
    return Condition(cost="straggler", per_core=2, rounds=rounds)


def test_gains_are_taken_within_each_round() -> None:
    # The second round ran on a machine of half the speed.
    found = condition([100.0, 50.0], [120.0, 60.0])
    assert found.gains["c/b"].text(".2f") == "1.20 [1.20 .. 1.20]"
    assert found.gains["c/a"].text(".2f") == "0.90 [0.60 .. 1.20]"
    assert found.latency_gains("P99")["c/b"].median == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("bound", "says"),
    [
        ([104.0, 110.0], "binding pays: c/b is 1.070 [1.040 .. 1.100], above 1.03 throughout."),
        ([102.0, 110.0], "binding does not pay: c/b is 1.060 [1.020 .. 1.100], not above 1.03 throughout."),
        ([90.0, 96.0], "binding costs: c/b is 0.930 [0.900 .. 0.960], below 0.97 throughout."),
    ],
)
def test_the_verdict_looks_at_all_rounds(bound: list[float], says: str) -> None:
    assert condition([100.0, 100.0], bound).verdict == f"{COSTS['straggler'].label}, 2 per core: {says}"


def test_a_table_and_its_ratios_for_each_kind_of_cost() -> None:
    report = Report(name="example", command="")
    add_to(report, [condition([100.0], [120.0])])
    assert [len(table.rows) for table in report.tables] == [3, 3]
    kept = report.figures["straggler"]["2 per core"]
    assert (kept["gain"]["c/b"].median, kept["latency_gain"]["mean"]["c/a"].median) == pytest.approx((1.2, 1.2))


@pytest.mark.parametrize("cost", ["equal", "straggler"])
def test_the_emulated_costs_exist(cost: str) -> None:
    backend, target, options = parse_uri(COSTS[cost].simulator)
    assert (backend, options["mode"]) == ("emulated", "spin")
    emulated(target, **options).close()
