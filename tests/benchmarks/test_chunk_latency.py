from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import engine_cost
import pytest
from chunk_latency import CHUNK, JUDGED, TASKS, VARIANTS, add_to, explanation, judge
from chunk_latency_variant import _LockStep
from report import Report
from timed_rollout import Stub, Supply, TimedRollout

from ebrl.backends.registry import load_simulator, parse_uri
from ebrl.runtime.order import EnvironmentOrder
from ebrl.runtime.rollout import RolloutSettings

STUB = EnvironmentOrder(
    name="stub",
    factory={"module": "stub_simulator", "name": "StubSimulator"},
    target="",
    options={},
    program={"module": "ebrl.runtime.birth", "name": "execute"},
    path=[str(Path(engine_cost.__file__).parent)],
)


def result(mean: float, p50: float, p99: float, busy: float) -> dict[str, Any]:
    return {
        "chunk_ms": {"mean": mean, "P50": p50, "P99": p99},
        "env_steps_per_s": 8000 / mean,
        "busy": busy,
        "core_ms_per_step": 2.0,
    }


def reported(**of: list[dict[str, Any]]) -> Report:
    """Lock-step takes 1.5 times as long; in the second round the machine was half as fast."""
    rounds = {name: [result(60.0, 60.0, 63.0, 0.9), result(120.0, 120.0, 126.0, 0.9)] for name in VARIANTS}
    rounds["lock-step"] = [result(90.0, 90.0, 94.5, 0.6), result(180.0, 180.0, 189.0, 0.6)]
    task, per_core = JUDGED
    report = Report(name="example", command="")
    add_to(report, task, {per_core: rounds | of})
    return report


def test_gains_are_taken_within_each_round() -> None:
    task, per_core = JUDGED
    found = reported().figures[task][f"{per_core} per core"]
    assert found["gain"]["lock-step/bound"]["mean"].text(".2f") == "1.50 [1.50 .. 1.50]"
    assert found["gain"]["free/dispatched"]["P99"].median == 1.0
    assert found["P99/P50"]["bound"].text(".2f") == "1.05 [1.05 .. 1.05]"


def test_the_goals_are_the_papers() -> None:
    report = reported()
    judge(report)
    assert [(goal.goal, goal.met) for goal in report.goals] == [
        (1.61, False),
        (1.61, False),
        (1.53, False),
        (0.063, True),
    ]


def test_the_explanation_says_what_could_be_gained() -> None:
    task, per_core = JUDGED
    said = explanation(reported().figures[task], task, per_core)
    assert f"a chunk is {per_core * CHUNK * 2:.0f} ms of core time" in said
    assert "60 % of the cores" in said
    assert "more than 1.67 times shorter" in said


def test_the_emulated_costs_exist() -> None:
    backend, target, options = parse_uri(TASKS["paper"])
    assert options["mode"] == "spin"
    load_simulator(backend)(target, **options).close()


def test_engine_costs_are_judged_by_the_dearest_size() -> None:
    extent = engine_cost.Extent(sizes=(8, 64), repetitions=1, env_steps=1)
    costs = {"one": (100.0, 125.0), "coarse": (20.0, 30.0), "chosen": (20.0, 25.0)}
    rounds = {
        f"{quantum} {size}": [{"us_per_step": us, "us_per_chunk": 8 * us}]
        for quantum, of_sizes in costs.items()
        for size, us in zip(extent.sizes, of_sizes, strict=True)
    }
    report = Report(name="example", command="")
    engine_cost.add_to(report, extent, rounds, judged=True)
    assert [(goal.value, goal.met) for goal in report.goals] == [
        (125.0, False),
        (1.25, True),
        (30.0, True),
        (1.5, False),
    ]
    assert report.figures["growth, quantum chosen"].median == 1.25
    assert len(report.tables[0].rows) == 6


def test_supply_keeps_everybody_in_flight_and_nobody_far_ahead() -> None:
    """In one endless batch an environment that begins a new window would do all of it before the others go on."""
    window, done, supply = 64, Counter(), Supply()

    class Counting(TimedRollout):
        def _chunk_done(self, index: int, environment: Any) -> None:
            super()._chunk_done(index, environment)
            done[index] += 1
            assert max(done.values()) - min(done[row] for row in range(4)) < window // 2, done

    rollout = Counting(
        RolloutSettings(order=STUB, num_envs=4, num_steps=window, chunk=2, cores=(0,), quantum=2),
        make_actor=lambda made: Stub(made, 0),
        on_batch=supply.batch_done,
    )
    try:
        while rollout.slots is None or any(state.work in ("start", "reset") for state in rollout._environments):
            rollout.poll(0.5)
        end_s = time.monotonic() + 30.0
        while sum(done.values()) < 4 * window * 5:
            supply.poll(rollout, 0.5)
            assert all(state.window is not None for state in rollout._environments)
            assert time.monotonic() < end_s
    finally:
        rollout.close()
    assert len(rollout.latencies_s) == sum(done.values())


def test_lock_step_goes_on_over_the_ends_of_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = _LockStep(STUB, 2, 8, 0)
    resets: list[int] = []
    reset = lock._reset
    monkeypatch.setattr(lock, "_reset", lambda ended: (resets.append(len(ended)), reset(ended)))
    try:
        for _ in range(130):  # 1,040 steps: the stub's episodes last 1,000
            assert lock.chunk() > 0
    finally:
        lock.close()
    assert [count for count in resets if count] == [2]
