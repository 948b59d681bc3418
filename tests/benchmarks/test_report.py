from __future__ import annotations

import io
import json
import os

import pytest
from report import Goal, Report, Spread, ratios, versions
from rich.console import Console
from rounds import RepetitionFailed, in_fresh_process, interleaved
from steady_state import SteadyState
from train_results import TaskResults
from training_task import TrainingTask


def test_spread_is_the_median_with_its_extremes() -> None:
    assert Spread.of([3.0, 1.0, 2.0]).text() == "2 [1 .. 3]"
    assert Spread.of([1.25]).text(".2f") == "1.25"
    with pytest.raises(ValueError, match="at least one"):
        Spread.of([])


def test_ratios_are_taken_within_each_round() -> None:
    # The second round ran on a machine of half the speed.
    assert ratios([120.0, 60.0], [100.0, 50.0]) == Spread(1.2, 1.2, 1.2, 2)
    with pytest.raises(ValueError):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("value", "at_least", "met"), [(1.08, True, True), (1.07, True, False), (1.07, False, True), (1.08, False, False)]
)
def test_goal(value: float, at_least: bool, met: bool) -> None:
    goal = Goal(name="ratio", value=value, goal=1.08, at_least=at_least)
    assert goal.plain() == {"name": "ratio", "value": value, "goal": 1.08, "met": met}


def test_report_prints_and_keeps(tmp_path) -> None:
    report = Report(name="example", command="python benchmarks/example.py")
    report.figures["rate"] = {"ours": Spread.of([1.0, 3.0])}
    report.goals.append(Goal(name="rate", value=2.0, goal=1.5))
    report.table("Rates", ["", "steps/s"], [["ours", report.figures["rate"]["ours"].text()]])

    console = Console(width=100, file=io.StringIO())
    report.show(console)
    printed = console.file.getvalue()
    assert "2 [1 .. 3]" in printed
    assert "Goal rate: 2, at least 1.5: met" in printed

    kept = json.loads(report.save(tmp_path).read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["example.json"]
    assert set(kept) == {"name", "began", "command", "machine", "versions", "figures", "goals"}
    assert kept["figures"] == {"rate": {"ours": {"median": 2.0, "least": 1.0, "most": 3.0, "repetitions": 2}}}
    assert kept["goals"] == [{"name": "rate", "value": 2.0, "goal": 1.5, "met": True}]
    assert kept["machine"]["cores"] >= 1


def test_versions_leave_out_what_is_not_installed() -> None:
    assert set(versions(["numpy", "surely-no-such-package"])) == {"python", "numpy"}


def test_variants_alternate() -> None:
    order = []
    results = interleaved("ABC", 2, lambda variant, number: order.append(variant) or {"number": number})
    assert "".join(order) == "ABCABC"
    assert results["B"] == [{"number": 0}, {"number": 1}]


def test_a_repetition_is_a_process_of_its_own(tmp_path) -> None:
    script = tmp_path / "repetition.py"
    script.write_text(
        "import json, os, sys\n"
        "print('noise')\n"
        "print('RESULT ' + json.dumps({'pid': os.getpid(), **json.loads(sys.argv[1])}))\n"
    )
    result = in_fresh_process(script, {"seed": 3}, timeout_s=30)
    assert result["seed"] == 3
    assert result["pid"] != os.getpid()


def test_a_repetition_without_a_result_tells_its_last_words(tmp_path) -> None:
    script = tmp_path / "repetition.py"
    script.write_text("raise SystemExit('no simulator')")
    with pytest.raises(RepetitionFailed, match="no simulator"):
        in_fresh_process(script, {}, timeout_s=30)
    script.write_text("import time\ntime.sleep(60)")
    with pytest.raises(RepetitionFailed, match=r"no result within 0\.5 s"):
        in_fresh_process(script, {}, timeout_s=0.5)


def test_steady_state_counts_whole_iterations_after_the_first(monkeypatch) -> None:
    clock = {"s": 0.0}
    monkeypatch.setattr("steady_state.time.monotonic", lambda: clock["s"])
    steady = SteadyState(skip=2, measure_s=5.0, steps_per_iteration=512, counters=lambda: {"clock": clock["s"]})
    ended = []
    for end_s in (20.0, 24.0, 26.0, 28.0, 30.0):
        clock["s"] = end_s
        ended.append(steady.iteration_done())
    assert ended == [False, False, False, False, True]
    result = steady.result()
    assert (result["iterations"], result["wall_s"], result["env_steps_per_s"]) == (3, 6.0, 256.0)
    assert result["grown"]["clock"] == 6.0


def test_steady_state_refuses_a_run_that_ended_early() -> None:
    steady = SteadyState(skip=1, measure_s=60.0, steps_per_iteration=1, counters=dict)
    steady.iteration_done()
    with pytest.raises(ValueError, match="before the measurement was complete"):
        steady.result()


def test_the_task_is_the_workflow_without_its_evaluation() -> None:
    task = TrainingTask.named("lift", num_envs=3)
    assert [node.stage.kind for node in task.graph.nodes.values()] == ["simulation", "generation", "training"]
    assert all(edge.source in task.graph.nodes and edge.target in task.graph.nodes for edge in task.graph.edges)
    assert (task.num_envs, task.num_steps, str(task.simulator)) == (3, 64, "robosuite:Lift")
    assert (task.ppo["minibatch"], task.ppo["gamma"], task.ppo["gae_lambda"]) == (128, 0.97, 0.95)
    assert task.policy["hidden"] == (64, 64)


def test_results_compare_with_the_better_baseline() -> None:
    grown = {"simulation": 12.0, "engine": 0.1, "rolled_out": 1000.0, "machine": 16.1}
    used = {"wall_s": 10.0, "cores": 2, "grown": {"simulation": 12.0, "training process": 1.0, "machine": 13.0}}
    ours = used | {"env_steps_per_s": 150.0, "env_steps": 1500, "grown": grown}
    rounds = {
        "sb3-1": [{"env_steps_per_s": 120.0, "env_steps": 1000} | used],
        "sb3-2": [{"env_steps_per_s": 100.0, "env_steps": 1000} | used],
        "ebrl": [ours],
        "sync": [ours],
    }
    results = TaskResults(task="lift_stock", settings={}, rounds=rounds)
    assert results.baseline == "sb3-1"
    assert results.speedups["ebrl"].median == 1.25
    assert results.cpu_us["ebrl"]["engine"].median == pytest.approx(100.0)
    shares = results.shares["ebrl"]
    assert (shares["simulation"], shares["others"], shares["idle"]) == pytest.approx((0.6, 0.2, 0.195))

    report = Report(name="example", command="")
    results.add_to(report)
    assert len(report.tables) == 3
    results.add_goals(report)
    assert [goal.met for goal in report.goals] == [True, True]
