"""The comparison with the paper: what its sentences say, and that small experiments run."""

from __future__ import annotations

import pytest
from experiments import Experiment, Extent, outcome, outcomes
from latency import latencies
from reallocation import COLUMNS, reallocation
from rich.console import Console
from speedups import Comparison, comparison, experiments, sentence

from ebrl.planner.problem import Allocation
from ebrl.planner.roofline import Roofline
from ebrl.rehearse.comparison import Outcome

SMALL = Extent(chunk_steps=100, horizons=1)


def reached(rate: float, **usage: dict[str, float]) -> Outcome:
    return Outcome(
        title="",
        gpus=8,
        allocation=Allocation(),
        rate=rate,
        roofline=Roofline(rate=100.0, parts={"devices": 0.9, "environments": 0.1}, limits={}),
        usage=usage,
        by_staleness={0: 1.0},
    )


@pytest.fixture
def found() -> Comparison:
    return Comparison(
        name="robocasa_openpi",
        algorithm="grpo",
        ebrl=reached(80.0, cores={"busy": 0.5, "starvation": 0.5}, generation={"busy": 0.9, "transfer": 0.1}),
        others={"async": reached(40.0), "colocated": reached(20.0)},
        without={
            "overlap": reached(50.0, cores={"busy": 0.3, "starvation": 0.3, "barrier": 0.4}),
            "allocation": reached(80.0, cores={"busy": 0.5, "starvation": 0.5}),
        },
    )


def test_a_sentence_says_which_mechanism_brings_what_and_what_is_missing(found: Comparison) -> None:
    assert sentence(found) == (
        "robocasa_openpi, GRPO: ebrl reaches 80 chunk-steps/s, 0.80 of its roofline, which the devices hold down "
        "(generation: busy 90%, transfer 10%): 2.00x async, 4.00x colocated. Its mechanisms bring overlap +60% "
        "(without it 40% more barrier of cores), allocation +0%."
    )


def test_the_paper_is_compared_where_it_reports_something(found: Comparison) -> None:
    assert found.strongest == "async"
    assert set(found.wanted) == {"colocated", "hybrid", "async"}
    other = Comparison(name="libero_gr00t", algorithm="ppo", ebrl=found.ebrl, others=found.others, without={})
    assert other.wanted == {"async": 1.30}


def test_algorithms_that_collect_alike_are_rehearsed_once() -> None:
    alike = Experiment(name="libero_gr00t", algorithm="grpo").alike
    assert alike.algorithm == "ppo"
    assert Experiment(name="maniskill_openvla_oft", algorithm="grpo").alike.algorithm == "grpo"


def test_small_experiments() -> None:
    wanted = [Experiment(name="libero_dreamzero", algorithm=algorithm, gpus=2) for algorithm in ("ppo", "grpo")]
    rows = outcomes(wanted, SMALL, Console(quiet=True))
    assert rows[wanted[0]] == rows[wanted[1]]
    assert 0 < rows[wanted[0]].of_roofline <= 1.02
    single = Experiment(name="libero_dreamzero", algorithm="ppo", schedule="async", gpus=1)
    assert outcome(single, SMALL) is None  # one device is not two


def test_a_comparison_needs_what_it_asks_for() -> None:
    asked = list(experiments("libero_gr00t", "ppo"))
    rows = {one: reached(10.0) for one in asked}
    made = comparison("libero_gr00t", "ppo", rows)
    assert made.speedup("sync") == 1.0 and set(made.without) == {"allocation", "pipeline", "overlap", "rebinding"}


def test_chunks_do_not_wait_longer_with_rebinding() -> None:
    told = latencies("libero_gr00t", None)
    assert told.per_core == pytest.approx(64 / 56)
    assert min(told.ratios) > 0.98 and told.tail > 1.0


def test_a_trace_of_the_drift() -> None:
    trace = reallocation(iterations=6)
    assert len(trace.kept) == len(trace.replanned) == 6 and len(trace.rows) == 3
    assert all(len(row) == len(COLUMNS) for row in trace.rows)
    assert max(trace.kept[2:]) < trace.kept[1]  # the first iteration fills the pipeline
