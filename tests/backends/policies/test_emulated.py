"""Emulated policies: they take the time that a profile says of the shares of their process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ebrl.backends.accelerators import emulated as devices
from ebrl.backends.policies.emulated import EmulatedPolicy
from ebrl.backends.protocols import Policy, Share, SimulatorSpec, Space
from ebrl.errors import UsageError
from ebrl.graph.items import Batch, Observation
from ebrl.observe.records import write_json

from ...planner.profiles import made, point

SPEC = SimulatorSpec(observation={"state": Space(shape=(3,))}, action=Space(shape=(2,), low=-1.0, high=1.0))


def on(model: str, quota: float, batch: int, seconds: float) -> object:
    return point(quota, batch, seconds, resource=model, p99_s=seconds)


@pytest.fixture
def file(tmp_path: Path) -> str:
    stages = {
        "simulation": (point(1, 1, 0.01),),
        "generation": (on("H100", 50, 1, 0.2), on("H100", 100, 1, 0.1), on("H20", 100, 1, 0.3)),
        "training": (on("H100", 50, 10, 4.0), on("H100", 100, 10, 2.0)),
    }
    write_json(tmp_path / "profile.json", made(chunk=5, stages=stages, swap_s=7.0, publish_s=0.5))
    return str(tmp_path / "profile.json")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Instead of sleeping; the process has no share yet."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    monkeypatch.setattr(devices, "_applied", {})
    return found


def given(*shares: Share) -> None:
    for share in shares:
        devices.Emulated().apply(share)


def observations(rows: int) -> Batch[Observation]:
    return Batch.stacked(Observation, seeds=np.zeros(rows, np.uint64), state=np.zeros((rows, 3), np.float32))


def test_acting_takes_what_the_table_says_of_the_share(file: str, slept: list[float]) -> None:
    policy = EmulatedPolicy(SPEC, profile=file, chunk=5)
    assert isinstance(policy, Policy)
    given(Share("a", 50, model="H100"))
    chunks = policy.act(observations(1))
    assert chunks.column("actions").shape == (1, 5, 2)
    assert chunks.column("log_probs").shape == (1, 5, 2)
    given(Share("a", 100, model="H100"))
    policy.act(observations(1))
    policy.act(observations(3))
    assert slept == pytest.approx([0.2, 0.1, 0.3])


def test_training_is_divided_over_devices_and_waits_for_the_slowest(file: str, slept: list[float]) -> None:
    policy = EmulatedPolicy(SPEC, profile=file, chunk=5)
    given(Share("a", 100, model="H100"), Share("b", 50, model="H100"))
    policy.train(20)
    assert slept == pytest.approx([4.0])
    assert policy.weights()["trained"] == 1
    other = EmulatedPolicy(SPEC, profile=file, chunk=5)
    other.load(policy.weights())
    assert other.weights()["trained"] == 1


def test_weights_travel_and_devices_change_hands(file: str, slept: list[float]) -> None:
    policy = EmulatedPolicy(SPEC, profile=file, chunk=5)
    given(Share("a", 100, model="H100"))
    policy.prepare(policy.weights())
    given(Share("a", 100, model="H100", in_turn=True))
    policy.prepare(policy.weights())
    policy.train(10)
    assert slept == pytest.approx([0.5, 7.5, 9.0])


@pytest.mark.parametrize(
    ("share", "act", "message"),
    [
        (None, True, "gives the generation no share of an emulated device"),
        (Share("a", 100, model="H20"), False, "says nothing of the training on H20"),
        (Share("a", 100), True, "says nothing of the generation on an unknown device"),
    ],
)
def test_what_no_profile_can_say(file: str, slept: list[float], share: Share | None, act: bool, message: str) -> None:
    policy = EmulatedPolicy(SPEC, profile=file, chunk=5)
    given(*[share] if share else [])
    call: Callable[[], object] = (lambda: policy.act(observations(1))) if act else (lambda: policy.train(1))
    with pytest.raises(UsageError, match=message) as caught:
        call()
    assert caught.value.hint
    assert slept == []


def test_chunks_are_those_of_the_profile(file: str) -> None:
    with pytest.raises(UsageError, match="is of chunks of 5 actions, not 1"):
        EmulatedPolicy(SPEC, profile=file)
