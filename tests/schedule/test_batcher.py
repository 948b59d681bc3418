from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ebrl.schedule.batcher import Batcher


class Batching(RuleBasedStateMachine):
    """Requests with and without a version to wait for; a simulation that is hungry now and then."""

    @initialize(size=st.integers(1, 4))
    def begin(self, size: int) -> None:
        self.batcher: Batcher[int] = Batcher(batch_size=size)
        self.size = size
        self.version = 0
        self.next = 0
        self.open: dict[int, int] = {}  # request -> version that it needs
        self.served: list[int] = []
        self.hungry = False

    @rule(needs=st.lists(st.integers(-1, 2), max_size=4), hungry=st.booleans())
    def arrived(self, needs: list[int], hungry: bool) -> None:
        requests = range(self.next, self.next + len(needs))
        versions = [max(0, self.version + needed) for needed in needs]
        self.next = requests.stop
        self.open |= dict(zip(requests, versions, strict=True))
        self.hungry |= hungry
        self.batcher.arrived(requests, min_versions=versions, version=self.version, hungry=hungry)

    @rule()
    def published(self) -> None:
        self.version += 1
        self.batcher.published(self.version)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(sorted(self.open)))) if self.open else set()
        self.batcher.forget(gone)
        self.open = {request: needed for request, needed in self.open.items() if request not in gone}

    @rule()
    def take(self) -> None:
        free = [request for request, needed in self.open.items() if needed <= self.version]
        batch = self.batcher.take()
        assert len(batch) == len(set(batch)) <= self.size
        assert set(batch) <= set(free)
        if len(free) >= self.size or self.hungry:
            assert len(batch) == min(self.size, len(free))  # nobody waits while that costs core time
        else:
            assert not batch
        self.served += batch
        for request in batch:
            del self.open[request]
        if not self.open:
            self.hungry = False

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "batcher"):
            assert len(self.batcher) == len(self.open)
            assert set(self.batcher.requests()) == set(self.open)
            assert all(request in self.batcher for request in self.open)
            assert len(self.served) == len(set(self.served))

    def teardown(self) -> None:
        """With new weights and a hungry simulation everything is served."""
        if not hasattr(self, "batcher"):
            return
        self.batcher.published(self.version + 2)
        self.batcher.arrived((), min_versions=(), version=self.version + 2, hungry=True)
        rest = []
        while batch := self.batcher.take():
            rest += batch
        assert sorted(rest) == sorted(self.open)


TestBatching = Batching.TestCase
TestBatching.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def _batcher(size: int) -> Batcher[int]:
    return Batcher(batch_size=size)


def _arrive(batcher: Batcher[int], *requests: int, needs: int = 0, hungry: bool = False) -> None:
    batcher.arrived(requests, min_versions=[needs] * len(requests), version=0, hungry=hungry)


def test_a_full_batch_goes_at_once_in_order_of_arrival() -> None:
    batcher = _batcher(3)
    _arrive(batcher, 7, 5)
    assert batcher.take() == []
    _arrive(batcher, 6, 1)
    assert batcher.take() == [7, 5, 6]
    assert batcher.take() == []


def test_a_hungry_simulation_gets_what_there_is_until_nothing_is_left() -> None:
    batcher = _batcher(2)
    _arrive(batcher, 1, 2, 3)
    _arrive(batcher, hungry=True)
    assert [batcher.take(), batcher.take(), batcher.take()] == [[1, 2], [3], []]
    _arrive(batcher, 4)
    assert batcher.take() == []


def test_hunger_outlasts_the_wait_for_weights() -> None:
    batcher = _batcher(4)
    _arrive(batcher, 1, needs=1, hungry=True)
    assert batcher.take() == []
    batcher.published(1)
    assert batcher.take() == [1]


def test_older_weights_never_serve() -> None:
    batcher = _batcher(1)
    _arrive(batcher, 1, needs=2)
    _arrive(batcher, 2)
    batcher.published(1)
    assert [batcher.take(), batcher.take()] == [[2], []]
    batcher.published(2)
    assert batcher.take() == [1]
