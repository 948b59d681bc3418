from __future__ import annotations

from itertools import combinations

import pytest

from ebrl.errors import UsageError
from ebrl.graph.schedules import EXCLUSIVE, HALVES, IN_TURN, MECHANISMS, SCHEDULES, SHARED, declared, mechanisms


def test_what_the_schedules_are() -> None:
    assert {
        name: (rules.overlap, rules.step_barrier, rules.groups, rules.devices) for name, rules in SCHEDULES.items()
    } == {
        "ebrl": (True, False, 1, SHARED),
        "async": (True, True, 1, EXCLUSIVE),
        "hybrid": (False, True, 2, HALVES),
        "disaggregated": (False, True, 1, EXCLUSIVE),
        "colocated": (False, True, 1, IN_TURN),
        "sync": (False, True, 1, SHARED),
    }
    assert all(rules.rebinding and rules.summary for rules in SCHEDULES.values())


def test_what_a_schedule_does_without() -> None:
    assert declared("ebrl", ["allocation"]).devices == EXCLUSIVE
    assert declared("ebrl", ["pipeline"]).step_barrier
    assert declared("hybrid", ["pipeline"]).groups == 1
    assert not declared("async", ["overlap"]).overlap
    assert not declared("sync", ["rebinding"]).rebinding
    assert declared("async", ["overlap"]) != declared("async")


@pytest.mark.parametrize("name", SCHEDULES)
def test_mechanisms_do_not_depend_on_one_another(name: str) -> None:
    for first, second in combinations(MECHANISMS, 2):
        assert declared(name, [first, second]) == declared(name, [second, first])
        assert declared(name, [first, second]) == declared(name, [first]).without(second)


def test_mechanisms_have_an_order() -> None:
    assert mechanisms(["rebinding", "pipeline", "rebinding"]) == ("pipeline", "rebinding")
    assert mechanisms(()) == ()


def test_names_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="there is no schedule 'colocate'") as caught:
        declared("colocate")
    assert caught.value.hint == "did you mean 'colocated'?"
    with pytest.raises(UsageError, match="there is no mechanism 'overlp' to go without") as caught:
        declared("ebrl", ["rebinding", "overlp"])
    assert caught.value.hint == "did you mean 'overlap'?"
