from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.schedule.barriers import StepBarrier
from ebrl.schedule.requests import Requests


class Listening:
    """Hears requests; the first `failures` of them raise."""

    def __init__(self, failures: int = 0) -> None:
        self.heard: list[tuple[list[int], bool]] = []
        self.failures = failures

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError
        self.heard.append((list(rows), hungry))


def test_hunger_is_told_once_and_only_while_answers_are_due() -> None:
    requests, actor = Requests(), Listening()
    assert not requests.send(actor, hungry=True, active=list)
    requests.add(0)
    assert requests.send(actor, hungry=False, active=list)
    assert requests.send(actor, hungry=True, active=list)
    assert not requests.send(actor, hungry=True, active=list)
    requests.answered([0])
    assert actor.heard == [([0], False), ([], True)]


def test_hunger_is_told_again_after_it_was_stilled() -> None:
    requests, actor = Requests(), Listening()
    for row, hungry in ((0, True), (1, False)):
        requests.add(row)
        requests.send(actor, hungry=hungry, active=list)
    assert requests.send(actor, hungry=True, active=list)
    assert actor.heard == [([0], True), ([1], False), ([], True)]


def test_a_slot_that_owes_an_answer_asks_later() -> None:
    requests, actor = Requests(), Listening()
    assert requests.add(3)
    requests.send(actor, hungry=True, active=list)
    requests.withdraw(3)
    assert not requests.add(3)
    requests.answered([3])
    assert requests.add(3)
    requests.withdraw(3)
    assert requests.add(3)


def test_what_could_not_be_sent_stays_open() -> None:
    requests, actor = Requests(batch_size=64, barriers=[StepBarrier()]), Listening(failures=1)
    requests.add(1)
    requests.add(0)
    with pytest.raises(ZeroDivisionError):
        requests.send(actor, hungry=True, active=lambda: [0, 1])
    assert requests.send(actor, hungry=True, active=lambda: [0, 1])
    assert actor.heard == [([0, 1], True)]


def test_behind_a_barrier_all_are_sent_together() -> None:
    requests, actor = Requests(batch_size=64, barriers=[StepBarrier()]), Listening()
    requests.add(1)
    assert not requests.send(actor, hungry=True, active=lambda: [0, 1])
    requests.add(0)
    assert requests.send(actor, hungry=True, active=lambda: [0, 1])
    assert actor.heard == [([0, 1], True)]


def test_what_comes_all_at_once_is_asked_for_in_batches_so_that_several_workers_share_it() -> None:
    requests, actor = Requests(batch_size=2), Listening()
    for row in range(5):
        requests.add(row)
    assert requests.send(actor, hungry=True, active=list)
    assert actor.heard == [([0, 1], True), ([2, 3], True), ([4], True)]


def test_groups_do_not_wait_for_one_another() -> None:
    requests, actor = Requests(batch_size=64, barriers=[StepBarrier(), StepBarrier()]), Listening()
    requests.add(0)
    requests.add(3)
    assert not requests.send(actor, hungry=False, active=lambda: [0, 1, 2, 3])
    requests.add(2)
    assert requests.send(actor, hungry=False, active=lambda: [0, 1, 2, 3])
    requests.add(1)
    assert requests.send(actor, hungry=True, active=lambda: [0, 1, 2, 3])
    assert actor.heard == [([0, 2], False), ([1, 3], True)]


def test_groups_that_are_complete_at_once_ask_one_by_one() -> None:
    requests, actor = Requests(batch_size=64, barriers=[StepBarrier(), StepBarrier()]), Listening(failures=1)
    for row in (3, 0, 1, 2, 4):
        requests.add(row)
    requests.withdraw(4)
    with pytest.raises(ZeroDivisionError):
        requests.send(actor, hungry=True, active=lambda: [0, 1, 2, 3])
    requests.withdraw(2)
    assert requests.send(actor, hungry=True, active=lambda: [0, 1, 3])
    assert actor.heard == [([0], True), ([1, 3], True)]


@given(groups=st.integers(1, 4), rows=st.integers(1, 9), data=st.data())
def test_a_group_is_asked_for_when_its_last_row_is_there(groups: int, rows: int, data: st.DataObject) -> None:
    requests, actor = Requests(batch_size=64, barriers=[StepBarrier() for _ in range(groups)]), Listening()
    missing = [set(range(group, rows, groups)) for group in range(groups)]
    for row in data.draw(st.permutations(range(rows))):
        requests.add(row)
        missing[row % groups].remove(row)
        complete = not missing[row % groups]
        assert requests.send(actor, hungry=False, active=lambda: range(rows)) == complete
        if complete:
            assert actor.heard.pop() == (list(range(row % groups, rows, groups)), False)
    assert not actor.heard
