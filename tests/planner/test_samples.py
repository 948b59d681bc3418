from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.planner.samples import summary

durations = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=200)


@given(durations)
def test_it_lies_within_the_samples(samples_s: list[float]) -> None:
    found = summary(samples_s)
    for value in (found.mean_s, found.p50_s, found.p99_s):
        assert min(samples_s) * (1 - 1e-9) <= value <= max(samples_s) * (1 + 1e-9)
    assert found.p50_s <= found.p99_s
    assert found.interval >= 0


@given(durations, st.floats(0.01, 100.0))
def test_the_unit_does_not_matter(samples_s: list[float], unit: float) -> None:
    found, scaled = summary(samples_s), summary([unit * sample for sample in samples_s])
    assert scaled.p50_s == pytest.approx(unit * found.p50_s)
    assert scaled.interval == pytest.approx(found.interval)


def test_few_samples_say_nothing_certain() -> None:
    assert math.isinf(summary([1.0]).interval) and math.isinf(summary([1.0, 1.0]).interval)
    assert summary([1.0, 1.0, 1.0]).interval == 0.0


def test_one_straggler_moves_the_mean_and_not_the_median() -> None:
    found = summary([1.0] * 99 + [101.0])
    assert (found.p50_s, found.mean_s) == (1.0, 2.0)


def test_the_interval_holds_the_median_in_about_95_of_100_cases() -> None:
    random, inside = Random(7), 0
    for _ in range(400):
        found = summary([random.lognormvariate(0.0, 0.5) for _ in range(40)])
        inside += abs(found.p50_s - 1.0) <= 2 * found.interval * found.p50_s  # it need not be symmetric
    assert inside / 400 > 0.93


def test_more_samples_are_known_better() -> None:
    random = Random(3)
    samples_s = [random.lognormvariate(0.0, 0.3) for _ in range(400)]
    assert summary(samples_s).interval < summary(samples_s[:20]).interval / 2
