from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ebrl.errors import PlanError
from ebrl.resources.gpus import Gpu
from ebrl.resources.leases import Lease, Ledger
from ebrl.resources.pool import ResourcePool

CORES = (4, 5, 6, 7)
MEMORY = {"GPU-a": 1000, "GPU-b": None}


def ledger() -> Ledger:
    return Ledger(cores=CORES, device_memory_mib=MEMORY, memory_mib=500)


def refused(book: Ledger, holder: str, **wanted: Any) -> PlanError:
    before = book.leases
    with pytest.raises(PlanError) as caught:
        book.lease(holder, **wanted)
    assert book.leases == before
    return caught.value


def test_a_pool_becomes_a_ledger() -> None:
    pool = ResourcePool(cores=CORES, memory_mib=None, gpus=(Gpu(uuid="GPU-a", memory_mib=10), Gpu(uuid="GPU-b")))
    book = Ledger.of(pool)
    assert book.free_cores == CORES
    assert book.memory_left_mib == math.inf
    assert (book.device_memory_left_mib("GPU-a"), book.device_memory_left_mib("GPU-b")) == (10, math.inf)


def test_a_lease_names_its_holder_and_what_it_has() -> None:
    book = ledger()
    lease = book.lease("simulate-0", cores=[4], shared_cores=[5, 6], sm_percent={"GPU-a": 25}, memory_mib=100)
    assert (lease.holder, lease.cores, lease.shared_cores, lease.memory_mib) == ("simulate-0", (4,), (5, 6), 100)
    assert lease.sm_percent == {"GPU-a": 25}
    assert book.leases == (lease,)
    assert book.free_cores == (7,)
    assert (book.memory_left_mib, book.sm_percent_left("GPU-a")) == (400, pytest.approx(75))
    book.release(lease)
    assert (book.leases, book.free_cores, book.memory_left_mib) == ((), CORES, 500)


def test_a_core_is_held_by_one_alone_or_shared_by_any() -> None:
    book = ledger()
    book.lease("simulate-0", cores=[4])
    book.lease("generate-0", shared_cores=[5])
    book.lease("train-0", shared_cores=[5, 6])
    assert (
        refused(book, "other", cores=[4]).message
        == "other cannot have core 4 alone: held by simulate-0; free: 7"
    )  # fmt: skip
    assert refused(book, "other", shared_cores=[4]).message == "other cannot have core 4: held by simulate-0; free: 7"
    message = "other cannot have core 5 alone: held by generate-0 and train-0; free: 7"
    assert refused(book, "other", cores=[5]).message == message
    book.lease("other", shared_cores=[5])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"cores": [3]}, "other cannot have core 3: this machine offers 4-7"),
        ({"shared_cores": [8, 9]}, "other cannot have core 8-9: this machine offers 4-7"),
        ({"cores": [7, 7]}, "other cannot have core 7 twice: name every core once"),
        ({"cores": [7], "shared_cores": [7]}, "other cannot have core 7 twice: name every core once"),
        ({"sm_percent": {"GPU-a": 41}}, "other cannot have 41% of the SMs of GPU-a: train-0 has 60; left: 40"),
        (
            {"device_memory_mib": {"GPU-a": 201}},
            "other cannot have 201 MiB of the memory of GPU-a: train-0 has 800; left: 200",
        ),
        ({"memory_mib": 101}, "other cannot have 101 MiB of memory: simulate-0 has 100 and train-0 has 300; left: 100"),
        ({"memory_mib": -1}, "other cannot have -1 MiB of memory: an amount is 0 or more"),
        ({"sm_percent": {"GPU-b": math.nan}}, "other cannot have nan% of the SMs of GPU-b: an amount is 0 or more"),
        ({"sm_percent": {"GPU-c": 1}}, "there is no device GPU-c to lease"),
        ({"device_memory_mib": {"GPU-c": 1}}, "there is no device GPU-c to lease"),
    ],
)
def test_what_is_not_there_is_refused(wanted: dict[str, Any], message: str) -> None:
    book = ledger()
    book.lease("train-0", sm_percent={"GPU-a": 60}, device_memory_mib={"GPU-a": 800}, memory_mib=300)
    book.lease("simulate-0", cores=[4], memory_mib=100)
    error = refused(book, "other", **wanted)
    assert error.message == message
    assert error.hint


def test_a_lease_is_released_once_where_it_was_given() -> None:
    book = ledger()
    lease = book.lease("train-0", memory_mib=10)
    twin = book.lease("train-0", memory_mib=10)
    book.release(lease)
    assert book.leases == (twin,)
    for stranger in (lease, Lease(holder="train-0", memory_mib=10)):
        with pytest.raises(PlanError, match="train-0 holds no such lease"):
            book.release(stranger)


@given(st.integers(1, 200))
def test_equal_shares_fill_a_device(parts: int) -> None:
    book = ledger()
    for part in range(parts):
        book.lease(f"train-{part}", sm_percent={"GPU-a": 100 / parts})
    assert book.sm_percent_left("GPU-a") < 1e-5
    refused(book, "other", sm_percent={"GPU-a": 0.01})


cores = st.lists(st.sampled_from([*CORES, 8]), max_size=3)
devices = st.sampled_from(["GPU-a", "GPU-b"])


class Leasing(RuleBasedStateMachine):
    """Whatever is asked for and given back, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.book = ledger()
        self.held: list[Lease] = []

    @rule(
        cores=cores,
        shared_cores=cores,
        sm_percent=st.dictionaries(devices, st.floats(0, 120)),
        device_memory_mib=st.dictionaries(devices, st.integers(0, 1200)),
        memory_mib=st.integers(-5, 600),
    )
    def ask(self, **wanted: Any) -> None:
        before = self.book.leases
        try:
            self.held.append(self.book.lease(f"stage-{len(self.held)}", **wanted))
        except PlanError:
            assert self.book.leases == before

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        if self.held:
            lease = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
            self.book.release(lease)

    @invariant()
    def nothing_is_given_twice(self) -> None:
        assert self.book.leases == tuple(self.held)
        alone = [core for lease in self.held for core in lease.cores]
        assert len(alone) == len(set(alone))
        shared = {core for lease in self.held for core in lease.shared_cores}
        assert not shared & set(alone)
        assert set(self.book.free_cores) == set(CORES) - shared - set(alone)
        assert sum(lease.memory_mib for lease in self.held) <= 500
        assert sum(lease.device_memory_mib.get("GPU-a", 0) for lease in self.held) <= 1000
        for device in ("GPU-a", "GPU-b"):
            assert math.fsum(lease.sm_percent.get(device, 0.0) for lease in self.held) <= 100 + 1e-5


TestLeasing = Leasing.TestCase
