from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ebrl.schedule.fixed_dispatcher import FixedDispatcher

ENVIRONMENTS = range(6)
core_tuples = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True).map(tuple)


class Dispatching(RuleBasedStateMachine):
    """Environments that do anything that environments may do, on cores that come and go."""

    @initialize(cores=core_tuples)
    def begin(self, cores: tuple[int, ...]) -> None:
        self.dispatcher = FixedDispatcher(cores=cores)
        self.cores = cores
        self.running: dict[int, int] = {}
        self.ready: dict[int, tuple[float, float]] = {}

    @rule(
        environment=st.sampled_from(ENVIRONMENTS),
        work=st.sampled_from(["step", "reset"]),
        urgency=st.tuples(st.integers(0, 1), st.integers(-6, 0)),
    )
    def becomes_ready(self, environment: int, work: str, urgency: tuple[float, float]) -> None:
        if environment in self.running or environment in self.ready:
            with pytest.raises(ValueError, match="already has work in flight"):
                self.dispatcher.ready(environment, work)
            return
        self.dispatcher.ready(environment, work, urgency)
        self.ready[environment] = urgency

    @precondition(lambda self: self.running)
    @rule(data=st.data(), elapsed_s=st.floats(1e-4, 10.0))
    def finished(self, data: st.DataObject, elapsed_s: float) -> None:
        environment = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[environment]
        self.dispatcher.finished(environment, elapsed_s)

    @rule(environment=st.sampled_from(ENVIRONMENTS))
    def remove(self, environment: int) -> None:
        self.dispatcher.remove(environment)
        self.running.pop(environment, None)
        self.ready.pop(environment, None)

    @rule(cores=core_tuples)
    def move(self, cores: tuple[int, ...]) -> None:
        self.dispatcher.move(cores)
        self.cores = cores

    @rule()
    def dispatch(self) -> None:
        for environment, core in self.dispatcher.dispatch():
            assert core == self.own(environment) and core not in self.running.values()
            mine = [urgency for other, urgency in self.ready.items() if self.own(other) == core]
            assert self.ready.pop(environment) == min(mine)
            self.running[environment] = core
        assert all(self.own(environment) in self.running.values() for environment in self.ready)

    def own(self, environment: int) -> int:
        return self.cores[environment % len(self.cores)]

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "dispatcher"):
            assert self.dispatcher.waiting == len(self.ready)
            assert self.dispatcher.running == len(self.running)
            assert self.dispatcher.hungry == (set(self.cores) > {self.own(environment) for environment in self.ready})


TestDispatching = Dispatching.TestCase
TestDispatching.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_core_stays_idle_while_others_have_work() -> None:
    dispatcher = FixedDispatcher(cores=(3, 5))
    for environment in (0, 2, 4):
        dispatcher.ready(environment)
    assert dispatcher.dispatch() == [(0, 3)]
    assert dispatcher.hungry and dispatcher.waiting == 2
    dispatcher.finished(0, 0.1)
    assert dispatcher.dispatch() == [(2, 3)]


def test_on_its_core_the_slow_one_goes_first() -> None:
    dispatcher = FixedDispatcher(cores=(0,))
    for environment, elapsed_s in ((0, 0.1), (1, 5.0)):
        dispatcher.ready(environment)
        dispatcher.dispatch()
        dispatcher.finished(environment, elapsed_s)
    dispatcher.ready(0)
    dispatcher.ready(1)
    assert dispatcher.dispatch() == [(1, 0)]
    assert dispatcher.latency_s == {(0, "step"): 0.1, (1, "step"): 5.0}


def test_a_core_that_was_taken_away_is_busy_when_it_comes_back() -> None:
    dispatcher = FixedDispatcher(cores=(0, 1))
    dispatcher.ready(1)
    dispatcher.ready(3)
    assert dispatcher.dispatch() == [(1, 1)]
    dispatcher.move((0,))
    assert dispatcher.dispatch() == [(3, 0)]
    dispatcher.move((1,))
    dispatcher.ready(2)
    assert dispatcher.dispatch() == []
    dispatcher.finished(1, 0.1)
    assert dispatcher.dispatch() == [(2, 1)]


@pytest.mark.parametrize("cores", [(), (1, 1)])
def test_a_dispatcher_needs_a_core(cores: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one core, and each once"):
        FixedDispatcher(cores=cores)
