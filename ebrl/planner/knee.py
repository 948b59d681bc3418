"""Knee: from where on more of a resource, or a larger batch, brings little."""

from __future__ import annotations

from collections.abc import Sequence

_BEND = 0.05
"""Of the largest rate: what rises less above its chord is straight."""


def knee(curve: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The point of `curve` that lies highest above the line from its first to its last; None where it is straight,
    or where less than three points tell nothing of its shape.

    curve: (cores or batch, rate), ascending.
    """
    if len(curve) < 3:
        return None
    (left, low), (right, high) = curve[0], curve[-1]

    def above(point: tuple[float, float]) -> float:
        return point[1] - (low + (point[0] - left) / (right - left) * (high - low))

    found = max(curve, key=above)
    return found if above(found) > _BEND * max(rate for _, rate in curve) else None
