from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.schedule.quantum import SPAN_S, quantum


@pytest.mark.parametrize(
    ("step_s", "left", "steps"),
    [
        (None, 8, 1),  # nothing is known yet
        (0.04, 8, 1),
        (SPAN_S, 8, 1),
        (SPAN_S / 2, 8, 2),
        (0.002, 8, 3),
        (0.00005, 8, 8),  # never more than the chunk has
        (0.00005, 1000, 100),
        (0.0, 8, 8),
    ],
)
def test_a_grant_holds_the_span(step_s: float | None, left: int, steps: int) -> None:
    assert quantum(step_s, left) == steps


@given(st.floats(1e-7, 10.0), st.integers(1, 1000))
def test_a_grant_is_never_longer_than_needed(step_s: float, left: int) -> None:
    steps = quantum(step_s, left)
    assert 1 <= steps <= left
    assert steps == 1 or (steps - 1) * step_s < SPAN_S
    assert steps == left or steps * step_s >= SPAN_S * (1 - 1e-9)
