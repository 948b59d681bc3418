"""Iterations of made-up machines in, numbers of training threads and their costs out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ebrl.planner.feedback import Measurement
from ebrl.planner.learning import LEARN, SKIP, Learning


def learn(learning: Learning, seconds: Callable[[int], float]) -> list[int]:
    """The numbers of threads that are tried where training takes `seconds` per chunk-step with so many."""
    tried = []
    while not learning.done:
        if not tried or tried[-1] != learning.threads:
            tried.append(learning.threads)
        rate = 1.0 / seconds(learning.threads)
        learning.observe(Measurement(throughput=1.0, simulation_rate=1.0, generation_rate=1.0, training_rate=rate))
        assert len(tried) < 20
    return tried


def test_spinning_threads_are_found_out() -> None:
    learning = Learning(planned=8, most=8)
    assert learn(learning, lambda threads: 0.01) == [8, 4, 2, 1]
    assert [(point.quota, point.core_s) for point in learning.training(iteration=10)] == [
        (1, pytest.approx(0.1)),
        (2, pytest.approx(0.2)),
        (4, pytest.approx(0.4)),
        (8, pytest.approx(0.8)),
    ]
    assert learning.threads == 8  # the plan's, until the planner has decided


def test_threads_that_help_are_added_until_they_do_not() -> None:
    learning = Learning(planned=2, most=64)
    assert learn(learning, lambda threads: 0.01 + 0.1 / min(threads, 8)) == [2, 1, 4, 8, 16]


def test_fewer_threads_that_save_nothing_end_the_search_below() -> None:
    assert learn(Learning(planned=16, most=16), lambda threads: 1.0 / threads) == [16, 8]


def test_more_than_there_are_is_not_tried() -> None:
    assert learn(Learning(planned=1, most=3), lambda threads: 1.0 / threads) == [1, 2]
    assert learn(Learning(planned=1, most=1), lambda threads: 1.0) == [1]


def test_what_the_author_fixed_is_not_tried() -> None:
    assert learn(Learning(planned=4, most=8, fixed=True), lambda threads: 1.0 / threads) == [4]


def test_the_first_iterations_do_not_count() -> None:
    learning = Learning(planned=1, most=1)
    rates = [0.001] * SKIP + [1.0, 2.0, 2.0, 2.0, 2.0][:LEARN]
    for rate in rates:
        learning.observe(Measurement(throughput=rate, simulation_rate=1, generation_rate=1, training_rate=rate))
    assert learning.done
    assert [entry.training_rate for entry in learning.kept] == rates[SKIP:]
    (point,) = learning.training(iteration=10)
    assert point.seconds == pytest.approx(10 * (1 + 4 * 0.5) / 5)
