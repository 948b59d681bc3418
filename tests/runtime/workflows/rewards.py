"""A module beside the workflow file, as users have them."""

from __future__ import annotations

from dataclasses import replace

import ebrl


def shaped_reward(trajectory: ebrl.Trajectory) -> ebrl.Trajectory:
    return replace(trajectory, rewards=trajectory.rewards * 0.1)
