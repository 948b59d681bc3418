from __future__ import annotations

import os

import numpy as np
import pytest

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.runtime.slots import Slots, anonymous_memory, layout
from ebrl.runtime.trajectories import TrajectoryRecorder

SPEC = SimulatorSpec(
    observation={"image": Space((2, 2), "uint8"), "state": Space((3,)), "instruction": Space((), "str")},
    action=Space((2,)),
)


@pytest.fixture
def slots() -> Slots:
    descriptor = anonymous_memory()
    made = Slots.create(descriptor, layout(SPEC, rows=3, chunk=4))
    os.close(descriptor)
    return made


def _show(slots: Slots, row: int, number: int, text: str = "go") -> None:
    image, state = np.full((2, 2), number, np.uint8), np.full(3, number, np.float32)
    slots.write_observation(row, {"image": image, "state": state, "instruction": text})


def test_fields_never_overlap() -> None:
    described = layout(SPEC, rows=3, chunk=4)
    end = 0
    for dtype, shape, offset in described["fields"].values():
        assert offset >= end and offset % 64 == 0
        end = offset + int(np.prod(shape)) * np.dtype(dtype).itemsize
    assert described["size"] >= end


def test_a_discrete_action_has_one_log_density() -> None:
    spec = SimulatorSpec(observation={"state": Space((3,))}, action=Space((), "int64"))
    fields = layout(spec, rows=2, chunk=4)["fields"]
    assert fields["actions"][:2] == ("int64", (2, 4))
    assert fields["log_probs"][:2] == ("float32", (2, 4, 1))


def test_two_mappings_see_the_same(slots: Slots) -> None:
    descriptor = anonymous_memory()
    one = Slots.create(descriptor, slots.layout)
    other = Slots(descriptor, slots.layout)
    _show(one, 1, 7, "hebe den Würfel")
    assert other["observation.state"][1].tolist() == [7, 7, 7]
    assert other.columns(np.array([1, 0]))["instruction"] == ["hebe den Würfel", ""]
    assert other.columns(slice(None))["image"].shape == (3, 2, 2)
    os.close(descriptor)


def _record(slots: Slots, recorder: TrajectoryRecorder, number: int, steps: int = 4) -> None:
    slots["actions"][1], slots["log_probs"][1], slots["rewards"][1] = number, -number, number
    slots["version"][1] = number
    _show(slots, 1, number, f"step {number}")
    recorder.chunk(steps)


@pytest.mark.parametrize("capacity", [2, 5])
def test_a_trajectory_is_a_copy_of_what_the_slot_showed(slots: Slots, capacity: int) -> None:
    recorder = TrajectoryRecorder(slots, 1, environment=9)
    assert not recorder.recording
    _show(slots, 1, 0, "step 0")
    recorder.begin(episode=2, start=6, capacity=capacity)
    _record(slots, recorder, 1)
    _record(slots, recorder, 2, steps=3)
    assert recorder.chunks == 2
    trajectory = recorder.close(truncated=True, success=True)
    assert not recorder.recording
    _show(slots, 1, 99)
    slots["actions"][1] = 99
    assert (trajectory.environment, trajectory.episode, trajectory.start) == (9, 2, 6)
    assert len(trajectory) == 2
    assert trajectory.observations["state"][:, 0].tolist() == [0, 1, 2]
    assert trajectory.observations["instruction"].tolist() == ["step 0", "step 1", "step 2"]
    assert trajectory.actions[:, 0, 0].tolist() == [1, 2]
    assert trajectory.log_probs.shape == (2, 4, 2)
    assert trajectory.rewards.shape == (2, 4)
    assert trajectory.steps.tolist() == [4, 3]
    assert trajectory.versions.tolist() == [1, 2]
    assert (trajectory.terminated, trajectory.truncated, trajectory.success) == (False, True, True)
    # What was allocated for chunks that never came does not travel along.
    assert all(array.base is None for array in (trajectory.actions, trajectory.observations["state"]))


def test_a_dropped_trajectory_leaves_no_trace(slots: Slots) -> None:
    recorder = TrajectoryRecorder(slots, 1)
    recorder.begin(episode=0, start=0, capacity=3)
    _record(slots, recorder, 1)
    recorder.drop()
    assert not recorder.recording and recorder.chunks == 0
    recorder.begin(episode=1, start=0, capacity=3)
    assert len(recorder.close()) == 0
