"""Urgency: how environments compare in the step dispatcher."""

from __future__ import annotations

import math

from ebrl.schedule.dispatcher import Urgency
from ebrl.schedule.windows import Window

_BEGUN = 0.5
"""Chunks more that one which was begun counts as owing."""
_TOLERATED_STEPS = 8


def urgency(window: Window | None, left: int, *, begun: bool) -> Urgency:
    """Of an environment that owes its `window` `left` chunks; nothing is less urgent than work without a window.

    Of two that owe as much the chunk that was `begun` goes first, while the caches know its environment.
    """
    return (math.inf, 0.0) if window is None else (window.batch, -left - (_BEGUN if begun else 0.0))


def tolerance(steps: int) -> float:
    """Chunks of `steps` control steps that environments may drift apart for the sake of staying on their cores."""
    return _TOLERATED_STEPS / steps
