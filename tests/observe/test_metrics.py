from __future__ import annotations

import math

import pytest

from ebrl.graph.items import Episode
from ebrl.observe.metrics import EpisodeWindow


def episode(success: bool | None, reward: float = 0.0, *, lost: bool = False) -> Episode:
    return Episode(environment=0, episode=0, steps=10, reward=reward, success=success, lost=lost)


def test_window_forgets_old_episodes_but_counts_them() -> None:
    window = EpisodeWindow(size=4)
    for n in range(8):
        window.add(episode(success=n >= 4, reward=float(n)))
    assert window.stats == {"episodes": 8, "success": 1.0, "episode_return": 5.5, "episode_length": 10.0}


def test_lost_and_silent_episodes_do_not_count_as_failures() -> None:
    window = EpisodeWindow()
    window.add(episode(success=True))
    window.add(episode(success=False, lost=True))
    window.add(episode(success=None))
    assert (window.success, window.episodes) == (1.0, 2)


def test_before_the_first_episode() -> None:
    assert math.isnan(EpisodeWindow().success)
    assert EpisodeWindow().stats["episodes"] == 0


def test_save_and_restore() -> None:
    window, later = EpisodeWindow(), EpisodeWindow()
    for n in range(5):
        window.add(episode(success=bool(n % 2), reward=n))
    later.restore(window.save())
    assert later.stats == window.stats


@pytest.mark.parametrize("rewards", [(math.inf, -math.inf), (1e308, 1e308), (math.nan, 1.0)])
def test_returns_that_have_no_mean(rewards: tuple[float, ...]) -> None:
    window = EpisodeWindow()
    for reward in rewards:
        window.add(episode(success=True, reward=reward))
    assert math.isnan(window.stats["episode_return"])
    assert window.success == 1.0
