from __future__ import annotations

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ebrl.schedule.sharing import Message, Sharing


def sharing(workers: str, batch_size: int = 4) -> Sharing[str]:
    made: Sharing[str] = Sharing(batch_size=batch_size)
    for worker in workers:
        made.joined(worker)
    return made


def served(made: Sharing[str], workers: str, version: int = 0) -> None:
    """Every worker has answered something, so that its weights are known."""
    for number, worker in enumerate(workers):
        for message in made.asked([100 + number], [-1], hungry=True):
            made.answered(message.worker, message.rows, version)
        made.answered(worker, [], version)


def test_a_single_worker_gets_everything_at_once() -> None:
    made = sharing("a")
    assert made.asked([0, 1], [0, 0], hungry=False) == [Message("a", [0, 1], False)]
    assert made.asked([2], [0], hungry=True) == [Message("a", [2], True)]
    assert made.asked([], [], hungry=True) == [Message("a", [], True)]


def test_who_is_free_gets_what_waits_and_nobody_queues_behind_a_call() -> None:
    made = sharing("ab")
    served(made, "ab")
    assert made.asked([0], [0], hungry=True) == [Message("a", [0], True)]
    assert made.asked([1], [0], hungry=True) == [Message("b", [1], True)]
    assert made.asked([2], [0], hungry=True) == []
    assert made.answered("b", [1], 0) == [Message("b", [2], True)]


def test_a_free_worker_waits_until_it_gets_its_part_of_all_requests() -> None:
    made = sharing("ab")
    served(made, "ab")
    assert made.asked([0, 1, 2, 3], [0] * 4, hungry=True) == [Message("a", [0, 1, 2, 3], True)]
    assert made.asked([4], [0], hungry=True) == []  # one of five, where two workers have 2.5 each
    assert made.asked([5], [0], hungry=True) == []
    assert made.asked([6], [0], hungry=True) == [Message("b", [4, 5, 6], True)]


def test_while_cores_have_work_batches_are_full() -> None:
    made = sharing("ab", batch_size=2)
    served(made, "ab")
    assert made.asked([0], [0], hungry=False) == []
    assert made.asked([1, 2], [0, 0], hungry=False) == [Message("a", [0, 1], True)]
    assert made.asked([], [], hungry=True) == [Message("b", [2], True)]


def test_requests_for_newer_weights_go_out_at_once_and_occupy_nobody() -> None:
    made = sharing("ab", batch_size=2)
    served(made, "ab")
    ahead = made.asked([0, 1, 2, 3], [1] * 4, hungry=False)
    assert sorted(ahead) == [Message("a", [0, 1], True), Message("b", [2, 3], True)]
    assert made.asked([4], [0], hungry=True) == [Message("a", [4], True)]


def test_others_get_what_a_lost_worker_owes_before_anything_else() -> None:
    made = sharing("ab")
    served(made, "ab")
    made.asked([0, 1], [0, 0], hungry=True)
    made.asked([2], [0], hungry=True)
    made.asked([3], [0], hungry=True)
    assert made.left("a") == [Message("b", [0, 1, 3], True)]
    assert made.left("a") == []


def test_without_workers_requests_wait_for_the_first() -> None:
    made: Sharing[str] = Sharing(batch_size=4)
    assert made.asked([0, 1], [0, 0], hungry=True) == []
    assert made.joined("a") == [Message("a", [0, 1], True)]


class Dividing(RuleBasedStateMachine):
    """Workers that come and go, answer and load weights; a simulation that is hungry now and then."""

    @initialize(size=st.integers(1, 4))
    def begin(self, size: int) -> None:
        self.sharing: Sharing[int] = Sharing(batch_size=size)
        self.owed: dict[int, dict[int, int]] = {}  # worker -> row -> weights that it needs
        self.versions: dict[int, int] = {}
        self.oldest: dict[int, int] = {}
        self.next_row, self.next_worker, self.version, self.hungry = 0, 0, 0, False

    def send(self, messages: Iterable[Message[int]]) -> None:
        for worker, rows, _ in messages:
            for row in rows:
                assert not any(row in owed for owed in self.owed.values())
                self.owed[worker][row] = self.oldest[row]

    @rule(count=st.integers(0, 5), ahead=st.integers(-1, 1), hungry=st.booleans())
    def asked(self, count: int, ahead: int, hungry: bool) -> None:
        rows = list(range(self.next_row, self.next_row + count))
        self.next_row += count
        self.hungry = hungry
        self.oldest |= dict.fromkeys(rows, max(0, self.version + ahead))
        self.send(self.sharing.asked(rows, [self.oldest[row] for row in rows], hungry=hungry))

    @rule()
    def joined(self) -> None:
        self.owed[self.next_worker], self.versions[self.next_worker] = {}, self.version
        self.send(self.sharing.joined(self.next_worker))
        self.next_worker += 1

    @precondition(lambda self: self.owed)
    @rule(data=st.data())
    def left(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.owed)))
        del self.owed[worker]
        self.send(self.sharing.left(worker))

    @precondition(lambda self: self.owed)
    @rule(data=st.data())
    def loaded(self, data: st.DataObject) -> None:
        self.version += 1
        self.versions[data.draw(st.sampled_from(sorted(self.owed)))] = self.version

    @precondition(lambda self: self.owed)
    @rule(data=st.data())
    def answered(self, data: st.DataObject) -> None:
        self.answer(data.draw(st.sampled_from(sorted(self.owed))))

    def answer(self, worker: int) -> None:
        version = self.versions[worker]
        rows = [row for row, needed in self.owed[worker].items() if needed <= version][: self.sharing.batch_size]
        for row in rows:
            del self.owed[worker][row], self.oldest[row]
        if rows:
            self.send(self.sharing.answered(worker, rows, version))

    def teardown(self) -> None:
        """In the end everything is answered."""
        if not hasattr(self, "sharing"):
            return
        self.joined()
        self.send(self.sharing.asked([], [], hungry=True))
        self.versions = dict.fromkeys(self.owed, self.version + 1)
        for _ in range(2 * self.next_row + 2):
            for worker in self.owed:
                self.answer(worker)
        assert not self.oldest

    @invariant()
    def nobody_waits_while_all_workers_are_idle(self) -> None:
        if not getattr(self, "owed", None) or not self.hungry:
            return
        waiting = set(self.oldest) - {row for owed in self.owed.values() for row in owed}
        at_work = [needed <= self.version for owed in self.owed.values() for needed in owed.values()]
        assert not waiting or any(at_work)

    @invariant()
    def a_single_worker_has_everything(self) -> None:
        if len(getattr(self, "owed", ())) == 1 and self.next_worker == 1:
            assert set(self.owed[0]) == set(self.oldest)


TestDividing = Dividing.TestCase
TestDividing.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
