from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ebrl.schedule.windows import Window, Windows


class Recording(RuleBasedStateMachine):
    """Environments take, finish and give back windows, and disappear."""

    @initialize(environments=st.integers(1, 4), in_order=st.booleans())
    def begin(self, environments: int, in_order: bool) -> None:
        self.windows = Windows(environments=range(environments), in_order=in_order)
        self.alive = list(range(environments))
        self.in_order = in_order
        self.batches = 0
        self.open: set[Window] = set()
        self.taken: dict[Window, int] = {}
        self.finished: set[Window] = set()

    @rule(count=st.integers(1, 5), min_version=st.integers(0, 3))
    def admit(self, count: int, min_version: int) -> None:
        self.windows.admit(self.batches, count, min_version)
        self.open |= {Window(self.batches, index, min_version) for index in range(count)}
        self.batches += 1

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        environment = data.draw(st.sampled_from(self.alive))
        window = self.windows.take(environment)
        mine = {other for other in self.open if self.owner(other) in (None, environment)}
        if not mine:
            assert window is None
            return
        assert window == min(mine, key=lambda other: (other.batch, other.index))
        self.open.remove(window)
        self.taken[window] = environment

    def owner(self, window: Window) -> int | None:
        return self.alive[window.index % len(self.alive)] if self.in_order else None

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), recorded=st.booleans())
    def end(self, data: st.DataObject, recorded: bool) -> None:
        window = data.draw(st.sampled_from(sorted(self.taken, key=str)))
        del self.taken[window]
        if not recorded:
            self.windows.give_back(window)
            self.open.add(window)
            return
        self.finished.add(window)
        rest = [other for other in [*self.open, *self.taken] if other.batch == window.batch]
        assert self.windows.done(window) == (not rest)

    @precondition(lambda self: len(self.alive) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        environment = data.draw(st.sampled_from(self.alive))
        for window in [window for window, owner in self.taken.items() if owner == environment]:
            del self.taken[window]
            self.windows.give_back(window)
            self.open.add(window)
        self.windows.remove(environment)
        self.alive.remove(environment)

    def teardown(self) -> None:
        """Whoever is left records all that is left, each window once."""
        if not hasattr(self, "windows"):
            return
        assert self.windows.admitted == len(self.open)
        left = [window for environment in self.alive for window in iter(lambda: self.windows.take(environment), None)]  # noqa: B023
        assert len(left) == len(set(left)) and set(left) == self.open
        assert not self.open & self.finished


TestRecording = Recording.TestCase
TestRecording.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(environments=st.integers(1, 5), count=st.integers(1, 12), order=st.randoms(use_true_random=False))
def test_in_order_the_assignment_does_not_depend_on_timing(environments: int, count: int, order: object) -> None:
    windows = Windows(environments=range(environments), in_order=True)
    windows.admit(0, count)
    windows.admit(1, count)
    found: dict[int, list[tuple[int, int]]] = {environment: [] for environment in range(environments)}
    turns = [environment for environment in range(environments) for _ in range(2 * count)]
    order.shuffle(turns)  # type: ignore[attr-defined]
    for environment in turns:
        if (window := windows.take(environment)) is not None:
            found[environment].append((window.batch, window.index))
    for environment, taken in found.items():
        assert taken == [(batch, index) for batch in (0, 1) for index in range(environment, count, environments)]


def test_a_fast_environment_records_more() -> None:
    windows = Windows(environments=range(2))
    windows.admit(0, 3, min_version=4)
    assert [windows.take(1), windows.take(1), windows.take(0), windows.take(0)] == [
        Window(0, 0, 4),
        Window(0, 1, 4),
        Window(0, 2, 4),
        None,
    ]


def test_turns_of_a_removed_environment_go_to_the_others() -> None:
    windows = Windows(environments=range(3), in_order=True)
    windows.admit(0, 3)
    windows.remove(1)
    assert [windows.take(2), windows.take(0), windows.take(0), windows.take(2)] == [
        Window(0, 1),
        Window(0, 0),
        Window(0, 2),
        None,
    ]


def test_clear_forgets_what_is_open() -> None:
    windows = Windows(environments=range(1))
    windows.admit(0, 3)
    windows.clear()
    assert windows.take(0) is None
    windows.admit(0, 1)
    assert windows.done(Window(0, 0))
