from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ebrl.schedule import dispatcher
from ebrl.schedule.dispatcher import StepDispatcher

ENVIRONMENTS = range(6)
PATIENCE = 5
TOLERANCE = 2
urgencies = st.tuples(st.integers(0, 1), st.integers(-6, 0))
works = st.sampled_from(["step", "reset"])
seconds = st.floats(1e-4, 10.0)


class Dispatching(RuleBasedStateMachine):
    """Environments that do anything that environments may do, against a model with plain containers."""

    @initialize(cores=st.sets(st.integers(0, 5), min_size=1, max_size=3))
    def begin(self, cores: set[int]) -> None:
        self.dispatcher = StepDispatcher(cores=tuple(cores), patience=PATIENCE, tolerance=TOLERANCE)
        self.cores = cores
        self.running: dict[int, int] = {}
        self.home: dict[int, int] = {}
        self.urgency: dict[int, tuple[float, float]] = {}
        self.work: dict[int, str] = {}
        self.latency: dict[tuple[int, str], float] = {}
        self.grade: dict[tuple[int, str], int] = {}
        self.typical: dict[str, float] = {}
        self.waiting: dict[int, int] = {}  # environment -> how often others were dispatched before it

    @rule(environment=st.sampled_from(ENVIRONMENTS), work=works, urgency=urgencies)
    def ready(self, environment: int, work: str, urgency: tuple[float, float]) -> None:
        if environment in self.running or environment in self.waiting:
            with pytest.raises(ValueError, match="already has work in flight"):
                self.dispatcher.ready(environment, work)
            return
        self.dispatcher.ready(environment, work, urgency)
        self.waiting[environment], self.urgency[environment] = 0, urgency
        self.work[environment] = work

    @precondition(lambda self: self.running)
    @rule(data=st.data(), elapsed_s=seconds)
    def finished(self, data: st.DataObject, elapsed_s: float) -> None:
        environment = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[environment]
        self.dispatcher.finished(environment, elapsed_s)
        key = environment, self.work[environment]
        before = self.latency.get(key, elapsed_s)
        self.latency[key] = latency_s = before + 0.2 * (elapsed_s - before)
        typical = self.typical.get(key[1], math.log2(latency_s))
        self.typical[key[1]] = typical + 0.05 * (math.log2(latency_s) - typical)
        if abs(math.log2(latency_s) - typical - self.grade.setdefault(key, 0)) > 0.7:
            self.grade[key] = round(math.log2(latency_s) - typical)

    @rule(environment=st.sampled_from(ENVIRONMENTS))
    def remove(self, environment: int) -> None:
        self.dispatcher.remove(environment)
        self.running.pop(environment, None)
        self.waiting.pop(environment, None)
        self.home.pop(environment, None)

    @rule(cores=st.sets(st.integers(0, 5), min_size=1, max_size=3))
    def move(self, cores: set[int]) -> None:
        self.dispatcher.move(tuple(cores))
        self.cores = cores
        self.home = {environment: core for environment, core in self.home.items() if core in cores}

    @rule()
    def dispatch(self) -> None:
        for environment, core in self.dispatcher.dispatch():
            assert environment in self.waiting and environment not in self.running
            assert core in self.cores and core not in self.running.values()
            starved = [other for other, passed in self.waiting.items() if passed >= PATIENCE]
            if starved:
                assert environment == starved[0]
            else:
                self.was_due(environment, core)
            del self.waiting[environment]
            self.running[environment] = self.home[environment] = core
            for other in self.waiting:
                self.waiting[other] += 1
            assert max(self.waiting.values(), default=0) <= PATIENCE + len(ENVIRONMENTS)
        assert not self.waiting or self.cores <= set(self.running.values())

    def was_due(self, environment: int, core: int) -> None:
        """The most urgent, of those the slowest, and of those the first; or, on its own core, one that is nearly as
        urgent."""
        due = min(self.waiting, key=self.order)
        if self.order(environment) != self.order(due):
            assert self.home[environment] == core and due in self.home
            assert self.order(environment) == min(
                self.order(other) for other in self.waiting if self.home.get(other) == core
            )
            (batch, owed), (first, most) = self.urgency[environment], self.urgency[due]
            assert batch == first and owed - most <= TOLERANCE

    def order(self, environment: int) -> tuple[tuple[float, float], float, int]:
        slow = self.grade.get((environment, self.work[environment]), math.inf)
        return self.urgency[environment], -slow, list(self.waiting).index(environment)

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "dispatcher"):
            assert self.dispatcher.waiting == len(self.waiting)
            assert self.dispatcher.running == len(self.running)
            assert len(set(self.running.values())) == len(self.running)
            assert self.dispatcher.latency_s == self.latency


TestDispatching = Dispatching.TestCase
TestDispatching.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_largest_latency_goes_first() -> None:
    dispatcher = StepDispatcher(cores=(0, 1, 2))
    for environment in range(3):
        dispatcher.ready(environment)
    dispatcher.dispatch()
    for environment, elapsed_s in enumerate((0.1, 0.2, 0.5)):
        dispatcher.finished(environment, elapsed_s)
        dispatcher.ready(environment)
    assert [environment for environment, _ in dispatcher.dispatch()] == [2, 1, 0]


def test_chance_does_not_decide_among_equals() -> None:
    """Whatever they last took, those that cost about as much take turns."""
    dispatcher, random = StepDispatcher(cores=(0,)), np.random.default_rng(0)
    for environment in range(4):
        dispatcher.ready(environment)
    order = []
    for _ in range(400):
        ((environment, _),) = dispatcher.dispatch()
        order.append(environment)
        dispatcher.finished(environment, random.uniform(0.08, 0.12))
        dispatcher.ready(environment)
    assert order == [0, 1, 2, 3] * 100


def test_a_reset_says_nothing_about_steps() -> None:
    dispatcher = StepDispatcher(cores=(0,))
    dispatcher.ready(0, "reset")
    dispatcher.dispatch()
    dispatcher.finished(0, 5.0)
    assert dispatcher.latency_s == {(0, "reset"): 5.0}
    dispatcher.ready(0, "step")
    dispatcher.dispatch()
    dispatcher.finished(0, 0.1)
    assert dispatcher.latency_s[0, "step"] == 0.1


def test_equal_latencies_go_in_order_of_arrival() -> None:
    dispatcher = StepDispatcher(cores=(0, 1, 2))
    for environment in (2, 0, 1):
        dispatcher.ready(environment)
    assert [environment for environment, _ in dispatcher.dispatch()] == [2, 0, 1]


def test_an_environment_keeps_its_core_while_nothing_else_runs() -> None:
    dispatcher = StepDispatcher(cores=(3, 5))
    for _ in range(4):
        dispatcher.ready(0)
        assert dispatcher.dispatch() == [(0, 3)]
        dispatcher.finished(0, 0.1)


def test_an_environment_keeps_its_core_while_it_is_not_far_behind() -> None:
    queue = StepDispatcher(cores=(0, 1), tolerance=4)
    owed = {0: 8, 1: 8, 2: 8, 3: 8}
    for environment in owed:
        queue.ready(environment, urgency=(0, -8))
        assert queue.dispatch() == [(environment, environment % 2)]
        queue.finished(environment, 1.0)
    for environment in owed:
        queue.ready(environment, urgency=(0, -owed[environment] + environment))
    assert queue.dispatch() == [(0, 0), (1, 1)]
    queue.finished(1, 1.0)  # 2 is the most urgent now, but core 1 has its own
    assert queue.dispatch() == [(3, 1)]
    queue.finished(3, 1.0)
    queue.ready(1, urgency=(0, -1))  # owes five steps less than 2
    assert queue.dispatch() == [(2, 1)]
    queue.finished(2, 1.0)
    queue.ready(2, urgency=(0, -6))
    assert queue.dispatch() == [(2, 1)], "it has moved"


def test_a_quick_environment_does_not_starve() -> None:
    """Two slow ones would keep the only core to themselves."""
    dispatcher = StepDispatcher(cores=(0,), patience=10)
    elapsed_s = {0: 0.001, 1: 1.0, 2: 1.0}
    for environment in elapsed_s:
        dispatcher.ready(environment)
    order = []
    for _ in range(112):
        ((environment, _),) = dispatcher.dispatch()
        order.append(environment)
        dispatcher.finished(environment, elapsed_s[environment])
        dispatcher.ready(environment)
    assert [place for place, environment in enumerate(order) if environment == 0] == [0, *range(11, 112, 11)]


def test_what_is_stale_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "_MOST_STALE", 8)
    queue = StepDispatcher(cores=(0,), patience=2)
    queue.latency_s = {(0, "step"): 0.0, (1, "step"): 1.0, (2, "step"): 1.0}
    for environment in range(3):
        queue.ready(environment)
    for _ in range(1000):
        ((environment, _),) = queue.dispatch()
        queue.finished(environment, float(environment > 0))
        queue.ready(environment)
    assert len(queue._by_urgency) <= 16 and len(queue._by_arrival) <= 16


@pytest.mark.parametrize("cores", [(), (1, 1)])
def test_a_dispatcher_needs_a_core(cores: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one core, and each once"):
        StepDispatcher(cores=cores)


def test_urgent_work_goes_before_slow_work() -> None:
    queue = StepDispatcher(cores=(0,))
    for environment, elapsed_s in ((0, 9.0), (1, 1.0), (2, 1.0)):
        queue.ready(environment)
        queue.dispatch()
        queue.finished(environment, elapsed_s)
    queue.ready(0, urgency=(1, -8))
    queue.ready(1, urgency=(0, -3))
    queue.ready(2, urgency=(0, -5))
    order = []
    while granted := queue.dispatch():
        order.append(granted[0][0])
        queue.finished(order[-1], 1.0)
    assert order == [2, 1, 0]
