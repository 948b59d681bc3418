"""Quantum: how many steps an environment may do with the core that it was granted, before it answers."""

from __future__ import annotations

import math

SPAN_S = 0.005
"""Work that one grant should hold. A grant costs the engine about 100 µs (``benchmarks/engine_cost.py``): 2 % of it."""


def quantum(step_s: float | None, left: int) -> int:
    """Steps to grant at once, of the `left` ones of the chunk: as many as fill `SPAN_S`.

    One where a step takes that long, so that after each another environment may have the core, and where
    nothing is known yet (`step_s` None).
    """
    if step_s is None:
        return 1
    return max(1, min(left, math.ceil(SPAN_S / max(step_s, 1e-9))))
