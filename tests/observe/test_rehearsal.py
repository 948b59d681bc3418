"""A rehearsal as a table and as a picture."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ebrl.graph.schedules import SCHEDULES
from ebrl.observe.rehearsal_table import allocation_text, rehearsal_table
from ebrl.planner.problem import Allocation
from ebrl.planner.roofline import Roofline
from ebrl.rehearse.comparison import Outcome, Trial, rehearsed
from ebrl.rehearse.truth import TrueCosts

from ..planner.machines import on_devices


def outcome(**changes: Any) -> Outcome:
    told: dict[str, Any] = {
        "title": "ebrl",
        "gpus": 2,
        "allocation": Allocation(generation={"a": 40, "b": 40}, training={"a": 60, "b": 60}, batch=4),
        "rate": 1234.0,
        "roofline": Roofline(rate=2468.0, parts={"devices": 1.0}, limits={"devices": 2468.0}),
        "usage": {
            "cores": {"busy": 0.5, "starvation": 0.3, "barrier": 0.198, "core": 0.002},
            "training": {"busy": 1.0},
        },
        "by_staleness": {0: 0.25, 1: 0.5, 2: 0.25},
        **changes,
    }
    return Outcome(**told)


def shown(*outcomes: Outcome) -> str:
    console = Console(width=120, highlight=False)
    with console.capture() as captured:
        console.print(rehearsal_table(outcomes, chunk=10))
    return captured.get()


def test_a_row_says_how_fast_and_how_busy_and_how_stale() -> None:
    lines = [line.split() for line in shown(outcome(), outcome(title="async", rate=617.0)).splitlines()]
    assert ["ebrl", "1,234", "12,340", "50%", "1.00x", "50%", "100%", "1.00/1/2"] in lines
    assert ["async", "617", "6,170", "25%", "2.00x", "50%", "100%", "1.00/1/2"] in lines


def test_below_stand_the_reasons() -> None:
    text = shown(outcome())
    assert "ebrl: training 2 x 60 %, generation 2 x 40 %, batch 4\n" in text
    assert "  idle: cores 30% starvation, 20% barrier; training never\n" in text
    assert "  staleness: 25% of 0, 50% of 1, 25% of 2\n" in text
    assert "roofline: no schedule exceeds 2,468 chunk-steps/s, bounded by devices\n" in text
    parts = {"environments": 0.3, "devices": 0.7, "training": 0.0}
    both = shown(outcome(roofline=Roofline(rate=2468.0, parts=parts, limits={})))
    assert "bounded by devices (70%) and environments (30%)\n" in both


def test_machines_are_compared_with_their_own_first_schedule() -> None:
    text = shown(outcome(gpus=1), outcome(title="sync", gpus=1, rate=617.0), outcome(), outcome(title="sync"))
    rows = [line.split() for line in text.splitlines()]
    assert [row[5] for row in rows if row and row[0] in ("1", "2")] == ["1.00x", "2.00x", "1.00x", "1.00x"]
    assert "sync on 1 GPU: " in text and "roofline: on 2 GPUs no schedule" in text


def test_everything_fits_where_lines_are_short() -> None:
    for line in shown(outcome(), outcome(title="disaggregated", gpus=16)).splitlines():
        assert len(line.rstrip()) <= 100


def test_an_allocation_in_words() -> None:
    assert allocation_text(Allocation(batch=8)) == "training 1 thread, generation 1 thread, batch 8"
    cpu = Allocation(generation_replicas=2, generation_threads=4, training_threads=2)
    assert allocation_text(cpu) == "training 2 threads, generation 2 x 4 threads, batch 1"
    uneven = Allocation(training={"a": 100, "b": 40, "c": 40}, generation={"b": 60}, simulation={"c": 60}, batch=2)
    assert allocation_text(uneven) == (
        "training 1 x 100 % + 2 x 40 %, generation 1 x 60 %, simulation 1 x 60 %, batch 2"
    )


def test_a_picture_of_two_schedules() -> None:
    from ebrl.observe.gantt import gantt

    problem = on_devices(2, cores=16, environments=16, iteration=64)
    trials = [Trial(title=name, schedule=SCHEDULES[name], gpus=2, problem=problem) for name in ("ebrl", "colocated")]
    truth = TrueCosts.of(problem, publish_s=0.1, swap_s=0.1)
    traces = [(each.title, rehearsed(each, truth, iterations=1, seed=0)[1]) for each in trials]
    assert gantt(traces).startswith(b"\x89PNG")
