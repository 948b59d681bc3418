from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ebrl.errors import UsageError
from ebrl.graph.items import Episode, Weights
from ebrl.runtime.reporting import collect
from ebrl.stages import evaluate


class Played:
    """Environments whose episodes have the given outcomes."""

    def __init__(self, outcomes: Any, *, lost: tuple[int, ...] = ()) -> None:
        self.outcomes, self.lost, self.count = list(outcomes), lost, 0

    def run(self, policy: Any, episodes: int, *, deterministic: bool, record: int, title: str) -> Iterator[Episode]:
        self.deterministic, self.recorded = deterministic, (record, title)
        for index in range(episodes):
            self.count += 1
            outcome = self.outcomes[index % len(self.outcomes)]
            yield Episode(0, index, 5, float(index), outcome, lost=index in self.lost)


class Loaded:
    def load(self, arrays: Any) -> None:
        self.arrays = arrays


def run(played: Played, **settings: Any) -> Any:
    policy, weights = Loaded(), Weights.of(3, {})
    with collect() as found:
        evaluate(played, policy, weights, **settings)
    assert policy.arrays is weights.arrays
    return found


def test_it_reports_success_reward_and_episodes() -> None:
    played = Played([True, False, True, True])
    found = run(played, episodes=8)
    assert found.metrics == {"success": 0.75, "reward": 3.5, "episodes": 8}
    assert found.stop is None
    assert played.deterministic


def test_reaching_the_goal_asks_to_stop() -> None:
    found = run(Played([True] * 19 + [False]), episodes=20, stop_at=0.95)
    assert found.stop == "success 0.95 over 20 episodes reached the goal of 0.95"


def test_just_missing_the_goal_does_not() -> None:
    assert run(Played([True] * 18 + [False] * 2), episodes=20, stop_at=0.95).stop is None


@pytest.mark.parametrize(
    ("outcomes", "stop_at", "played"),
    [
        ([False], 0.95, 10),  # hopeless from the third on, but ten are played
        ([True] * 20 + [False] * 80, 0.95, 23),  # 3 of 50 failed: 0.94 at best
        ([True] * 48 + [False] * 52, 0.95, 50),  # 2 of 50 failed: 0.96 is still there
        ([False], None, 50),  # without a goal everything is played
        ([False], 0.0, 50),
        ([True], 1.0, 50),
        ([True] * 30 + [False], 1.0, 31),
    ],
)
def test_it_ends_once_the_goal_is_out_of_reach(outcomes: Any, stop_at: float | None, played: int) -> None:
    environments = Played(outcomes)
    found = run(environments, episodes=50, stop_at=stop_at)
    assert environments.count == found.metrics["episodes"] == played


def test_lost_episodes_do_not_count() -> None:
    found = run(Played([True, False], lost=(1, 3)), episodes=6, stop_at=0.5)
    assert found.metrics == {"success": 0.75, "reward": (0 + 2 + 4 + 5) / 4, "episodes": 4}
    assert found.stop is not None
    assert run(Played([True], lost=tuple(range(6))), episodes=6).metrics == {}


def test_videos_of_no_evaluation_are_refused() -> None:
    with pytest.raises(UsageError, match="record_every must be at least 1, got 0"):
        run(Played([True]), episodes=1, record_video=1, record_every=0)


def test_without_success_only_rewards_are_reported() -> None:
    assert run(Played([None]), episodes=4).metrics == {"reward": 1.5, "episodes": 4}
    with pytest.raises(UsageError, match="stop_at needs success, which this simulator does not report"):
        run(Played([None]), episodes=4, stop_at=0.9)


@pytest.mark.parametrize(
    ("settings", "recorded"),
    [
        ({}, 0),
        ({"record_video": 2}, 2),
        ({"record_video": 2, "record_every": 3}, 2),
        ({"record_video": 2, "record_every": 2}, 0),
    ],
)
def test_videos_are_asked_for_by_iteration(settings: Any, recorded: int) -> None:
    played = Played([True])
    run(played, episodes=3, **settings)
    assert played.recorded == (recorded, "iteration-000003")
