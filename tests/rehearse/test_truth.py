from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.planner.costs import CPU
from ebrl.rehearse.truth import Draws, TrueCosts

from ..planner.machines import on_cores, on_devices
from ..planner.profiles import made, point

NOISY = {"simulation_sigma": 0.2, "generation_sigma": 0.3, "training_sigma": 0.1, "episode": 20, "episode_spread": 0.5}


def drawn(draws: Draws) -> list[object]:
    return [
        draws.chunk_s(0, 4),
        draws.reset_s(0),
        draws.episode(),
        draws.episode_left(),
        draws.generation_s("gpu", 50, 8),
        draws.training_s([("gpu", 50), ("gpu", 100)], 64),
    ]


def test_without_noise_the_costs_are_those_of_the_tables() -> None:
    problem = on_devices()
    draws = Draws(0, TrueCosts.of(problem))
    table = problem.generation.tables["gpu"]
    assert draws.chunk_s(3, 4) == pytest.approx(0.3)
    assert draws.generation_s("gpu", 50, 8)[0] == pytest.approx(table.seconds(50, 8))
    assert math.isinf(draws.episode()) and math.isinf(draws.episode_left())


def test_a_seed_is_a_sequence() -> None:
    costs = TrueCosts.of(on_devices(), reset_s=1.0, **NOISY)
    one, same, other = (drawn(Draws(seed, costs)) for seed in (1, 1, 2))
    assert one == same != other


@given(st.integers(0, 1000))
def test_episodes_are_within_their_spread(seed: int) -> None:
    draws = Draws(seed, TrueCosts.of(on_devices(), **NOISY))
    for _ in range(20):
        assert 10 <= draws.episode() <= 30
        assert 1 <= draws.episode_left() <= 30


def test_noise_changes_no_mean() -> None:
    draws = Draws(0, TrueCosts.of(on_devices(), simulation_sigma=0.4))
    times = [draws.chunk_s(0, 1) for _ in range(5000)]
    assert sum(times) / len(times) == pytest.approx(0.3, rel=0.03)
    assert max(times) > 0.6


def test_one_factor_for_all_devices_that_train() -> None:
    draws = Draws(0, TrueCosts.of(on_devices(), training_sigma=0.5))
    for _ in range(10):
        (one, _), (other, _) = draws.training_s([("gpu", 100), ("gpu", 100)], 64)
        assert one == other


def test_stragglers_are_slower() -> None:
    draws = Draws(0, TrueCosts.of(on_devices(), stragglers=(2,), straggler_factor=4.0, reset_s=1.0))
    assert draws.chunk_s(2, 1) == pytest.approx(4 * draws.chunk_s(1, 1))
    assert draws.reset_s(2) == 4 * draws.reset_s(1)


def test_costs_may_change_under_way() -> None:
    problem = on_devices()
    draws = Draws(0, TrueCosts.of(problem))
    before = draws.generation_s("gpu", 100, 8)
    draws.become(TrueCosts.of(attrs.evolve(problem, generation=problem.generation.corrected(2.0))))
    assert draws.generation_s("gpu", 100, 8) == pytest.approx((2 * before[0], 2 * before[1]))


def test_a_resource_without_costs() -> None:
    with pytest.raises(ValueError, match="nothing says what a stage costs on tpu"):
        Draws(0, TrueCosts.of(on_devices())).generation_s("tpu", 100, 1)


def test_resets_and_stragglers_are_told_as_part_of_a_chunk() -> None:
    problem = on_cores()  # 8 environments, chunks of 10 ms
    told = TrueCosts.of(problem, episode=20, reset_s=0.1).told(problem)
    assert told.simulation.tables[CPU].seconds(1, 1) == pytest.approx(0.010 + 0.1 / 20)
    slow = TrueCosts.of(problem, stragglers=(0, 99), straggler_factor=5.0).told(problem)
    assert slow.simulation.tables[CPU].seconds(1, 1) == pytest.approx(0.010 * (1 + 4 / 8))
    assert TrueCosts.of(problem).told(problem) == problem


def test_corrected_tables_are_told_their_resets_once() -> None:
    problem = on_cores()
    problem = attrs.evolve(problem, simulation=problem.simulation.corrected(2.0))
    told = TrueCosts.of(problem, episode=20, reset_s=0.1).told(problem)
    assert told.simulation.tables[CPU].seconds(1, 1) == pytest.approx(0.020 + 0.1 / 20)


def test_a_profile_tells_the_truth_in_medians() -> None:
    varying = point(1, 1, 0.010, p99_s=0.010 * math.exp(2.326 * 0.5))
    profile = made(stages={**made().stages, "simulation": (varying,)}, episode=20.0, episode_spread=0.5, reset_s=2.0)
    truth = TrueCosts.of_profile(profile)
    assert (truth.episode, truth.episode_spread, truth.reset_s) == (20.0, 0.5, 2.0)
    assert truth.simulation_sigma == pytest.approx(0.5)
    draws = Draws(0, truth)
    times = sorted(draws.chunk_s(0, 1) for _ in range(5001))
    assert times[2500] == pytest.approx(0.010, rel=0.05)


def test_a_profile_may_not_know_when_episodes_end() -> None:
    assert math.isinf(TrueCosts.of_profile(made()).episode)


def test_costs_that_were_seen_together_are_means() -> None:
    varying = point(1, 1, 0.010, p99_s=0.010 * math.exp(2.326 * 0.5))
    alone = made(stages={**made().stages, "simulation": (varying,)})
    together = attrs.evolve(alone, together={"simulation": 1.5})
    medians, means = (TrueCosts.of_profile(told).simulation.tables[CPU].seconds(1, 1) for told in (alone, together))
    assert medians == pytest.approx(0.010 * math.exp(0.5**2 / 2))
    assert means == pytest.approx(0.015)


def test_a_profile_tells_what_travels() -> None:
    truth = TrueCosts.of_profile(made(gather_s=0.02, publish_s=0.01))
    assert (truth.gather_s, truth.publish_s, truth.gap_s) == (0.02, 0.01, 0.0)
