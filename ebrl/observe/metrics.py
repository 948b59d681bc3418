"""Moving figures over the last finished episodes. Pure: episodes in, numbers out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from ebrl.graph.items import Episode

WINDOW = 100


class EpisodeWindow:
    """Success, return and length over the last `size` finished episodes; the count covers the whole run.

    Episodes of lost environments say nothing about the policy and are left out. Episodes whose
    simulator does not tell success count for return and length only.
    """

    def __init__(self, size: int = WINDOW) -> None:
        self.episodes = 0
        """Finished episodes of the whole run."""
        self._success: deque[float] = deque(maxlen=size)
        self._reward: deque[float] = deque(maxlen=size)
        self._steps: deque[float] = deque(maxlen=size)

    def add(self, episode: Episode) -> None:
        if episode.lost:
            return
        self.episodes += 1
        self._reward.append(episode.reward)
        self._steps.append(episode.steps)
        if episode.success is not None:
            self._success.append(float(episode.success))

    @property
    def success(self) -> float:
        """Share 0..1; NaN before the first episode and where the simulator does not tell."""
        return _mean(self._success)

    @property
    def stats(self) -> dict[str, float]:
        """`episodes`, `success` (0..1), `episode_return` and `episode_length` (environment steps)."""
        return {
            "episodes": self.episodes,
            "success": self.success,
            "episode_return": _mean(self._reward),
            "episode_length": _mean(self._steps),
        }

    def save(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "episodes": self.episodes,
            "success": list(self._success),
            "reward": list(self._reward),
            "steps": list(self._steps),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.episodes = saved["episodes"]
        for window, name in ((self._success, "success"), (self._reward, "reward"), (self._steps, "steps")):
            window.clear()
            window.extend(saved[name])


def _mean(values: deque[float]) -> float:
    try:
        return math.fsum(values) / len(values) if values else math.nan
    except (ValueError, OverflowError):  # both infinities, or a sum beyond all floats
        return math.nan
