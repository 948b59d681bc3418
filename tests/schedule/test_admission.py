from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebrl.schedule.admission import Admission

bounds = st.integers(0, 4)


@given(max_staleness=bounds, iterations=st.integers(0, 12), asked=st.lists(st.integers(0, 2)))
def test_every_batch_once_and_none_too_early(max_staleness: int, iterations: int, asked: list[int]) -> None:
    """Versions come one after the other; the driver may ask several times, or not, at each."""
    admission = Admission(max_staleness=max_staleness, iterations=iterations)
    granted: list[int] = []
    for version in range(iterations):
        for _ in range(1 + (asked[version] if version < len(asked) else 0)):
            new = admission.grant(version)
            assert all(batch <= version + max_staleness for batch in new)
            granted += new
        # The next training iteration consumes batch `version`: it must have been granted.
        assert version in granted
    assert granted == list(range(iterations))


@given(max_staleness=bounds, resumed=st.integers(0, 6), more=st.integers(0, 6))
def test_a_resume_goes_on_with_the_next_batch(max_staleness: int, resumed: int, more: int) -> None:
    admission = Admission(max_staleness=max_staleness, iterations=resumed + more, granted=resumed)
    granted = [batch for version in range(resumed, resumed + more) for batch in admission.grant(version)]
    assert granted == list(range(resumed, resumed + more))


@given(max_staleness=bounds, version=st.integers(0, 9), before=st.integers(0, 9), batch=st.integers(1, 8))
def test_it_is_the_capacity_formula(max_staleness: int, version: int, before: int, batch: int) -> None:
    """Granted batches in trajectories, `version` of them accepted by training and the rest running."""
    admission = Admission(max_staleness=max_staleness, iterations=100, granted=before)
    accepted = min(version, before) * batch
    running = before * batch - accepted
    capacity = (max_staleness + version + 1) * batch - accepted - running
    assert len(admission.grant(version)) * batch == max(0, capacity)


@given(max_staleness=bounds, batch=st.integers(0, 20), version=st.integers(0, 20))
def test_chunks_of_a_batch_are_never_too_stale(max_staleness: int, batch: int, version: int) -> None:
    oldest = Admission(max_staleness=max_staleness, iterations=100).min_version(batch)
    assert batch - oldest <= max_staleness
    assert oldest == 0 or batch - (oldest - 1) > max_staleness


def test_without_staleness_batches_alternate_with_training() -> None:
    admission = Admission(max_staleness=0, iterations=3)
    assert [list(admission.grant(version)) for version in (0, 0, 1, 2, 3)] == [[0], [], [1], [2], []]
