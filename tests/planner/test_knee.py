from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.planner.knee import knee


@pytest.mark.parametrize("most", [4, 8, 16])
def test_where_more_cores_bring_nothing_more(most: int) -> None:
    curve = [(float(cores), float(min(cores, most))) for cores in (1, 2, 4, 8, 16, 32)]
    assert knee(curve) == (most, most)


@given(st.floats(0.1, 100.0), st.floats(0.0, 100.0), st.lists(st.integers(1, 500), min_size=3, unique=True))
def test_a_straight_line_has_none(slope: float, start: float, along: list[int]) -> None:
    assert knee([(float(x), start + slope * x) for x in sorted(along)]) is None


@pytest.mark.parametrize(
    "curve",
    [
        [],
        [(1.0, 5.0)],
        [(1.0, 5.0), (2.0, 6.0)],
        [(1.0, 5.0), (2.0, 5.1), (3.0, 5.0)],  # flat but for noise
        [(1.0, 1.0), (2.0, 1.5), (3.0, 9.0)],  # it bends the other way
    ],
)
def test_too_little_to_tell(curve: list[tuple[float, float]]) -> None:
    assert knee(curve) is None


@given(st.floats(0.001, 1.0), st.floats(0.001, 0.1))
def test_batches_with_a_fixed_cost(fixed_s: float, item_s: float) -> None:
    """The knee is where the rate is that of large batches within a few times, never at an end."""
    curve = [(float(batch), batch / (fixed_s + item_s * batch)) for batch in (1, 2, 4, 8, 16, 32, 64)]
    found = knee(curve)
    assert found is None or 1 < found[0] < 64
