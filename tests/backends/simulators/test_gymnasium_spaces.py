from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from ebrl.backends.protocols import Space
from ebrl.backends.simulators.gymnasium_spaces import ObservationReader, action_space
from ebrl.errors import SimulatorError


def described(space: Space) -> tuple[Any, ...]:
    return space.shape, space.dtype, np.asarray(space.low).tolist(), np.asarray(space.high).tolist()


@pytest.mark.parametrize(
    ("space", "declared", "native", "shown"),
    [
        (spaces.Box(-1, 1, (2,), np.float64), ((2,), "float32", -1, 1), np.array([0.1, 0.2]), [0.1, 0.2]),
        (spaces.Box(-1, 1, ()), ((), "float32", -1, 1), 0.5, 0.5),
        (spaces.Box(0, 9, (2,), np.int64), ((2,), "float32", 0, 9), np.array([3, 4]), [3, 4]),
        (spaces.Box(0, 255, (1, 2), np.uint8), ((1, 2), "uint8", 0, 255), np.array([[3, 4]], np.uint8), [[3, 4]]),
        (spaces.Discrete(3, start=-1), ((3,), "float32", 0, 1), np.int64(-1), [1, 0, 0]),
        (spaces.MultiDiscrete([2, 3]), ((5,), "float32", 0, 1), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (spaces.MultiDiscrete([2, 2], start=[4, 5]), ((4,), "float32", 0, 1), np.array([4, 6]), [1, 0, 0, 1]),
        (spaces.MultiBinary(3), ((3,), "float32", 0, 1), np.array([1, 0, 1], np.int8), [1, 0, 1]),
    ],
)
def test_observations(space: Any, declared: Any, native: Any, shown: Any) -> None:
    reader = ObservationReader("Toy-v0", space)
    assert described(reader.spaces["state"]) == declared
    value = reader(native)["state"]
    assert (value.shape, value.dtype) == declared[:2]
    assert np.allclose(value, shown)


def test_dict_tuple_and_text_are_flattened() -> None:
    arm = spaces.Dict(joints=spaces.Box(-1, 1, (2,)), mode=spaces.Discrete(2))
    reader = ObservationReader(
        "Toy-v0", spaces.Dict(robot=spaces.Dict(arms=spaces.Tuple([arm, arm])), instruction=spaces.Text(20))
    )
    assert list(reader.spaces) == [
        "robot.arms.0.joints",
        "robot.arms.0.mode",
        "robot.arms.1.joints",
        "robot.arms.1.mode",
        "instruction",
    ]
    shown = reader(
        {
            "robot": {"arms": ({"joints": [0.0, 0.5], "mode": 1}, {"joints": [1.0, -1.0], "mode": 0})},
            "instruction": "open the drawer",
        }
    )
    assert list(shown) == list(reader.spaces)
    assert shown["instruction"] == "open the drawer"
    assert shown["robot.arms.1.joints"].tolist() == [1, -1]
    assert shown["robot.arms.0.mode"].tolist() == [0, 1]


def test_a_missing_part_is_left_out_for_the_check_to_name() -> None:
    reader = ObservationReader("Toy-v0", spaces.Dict(arm=spaces.Dict(a=spaces.Box(0, 1), b=spaces.Box(0, 1))))
    assert list(reader({"arm": {"b": [0.5]}})) == ["arm.b"]
    assert list(reader({"arm": None})) == []


def test_numbers_in_an_image_do_not_wrap_around() -> None:
    reader = ObservationReader("Toy-v0", spaces.Box(0, 255, (1,), np.uint8))
    assert reader(np.array([300]))["state"].dtype == np.float32


def test_a_category_that_does_not_exist() -> None:
    reader = ObservationReader("Toy-v0", spaces.Dict(mode=spaces.Discrete(2)))
    with pytest.raises(SimulatorError) as caught:
        reader({"mode": -1})
    assert caught.value.message == "Toy-v0: observation 'mode' is -1, outside of its space"


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            spaces.Dict(arm=spaces.Dict(path=spaces.Sequence(spaces.Box(0, 1)))),
            "Toy-v0: observation 'arm.path' is a Sequence, which no policy could read",
        ),
        (
            spaces.Graph(spaces.Box(0, 1), None),
            "Toy-v0: observation 'state' is a Graph, which no policy could read",
        ),
    ],
)
def test_observations_that_no_policy_reads(space: Any, message: str) -> None:
    with pytest.raises(SimulatorError) as caught:
        ObservationReader("Toy-v0", space)
    assert caught.value.message == message
    assert caught.value.hint.startswith("Box, Discrete, MultiDiscrete, MultiBinary, Text, and Dict and Tuple of them")


@pytest.mark.parametrize(
    ("space", "declared", "action", "native"),
    [
        (spaces.Discrete(3, start=-1), ((), "int64", -1, 1), np.array(7), 1),
        (spaces.MultiDiscrete([2, 3]), ((2,), "int64", 0, [1, 2]), np.array([-4, 9]), [0, 2]),
        (spaces.MultiDiscrete([2, 3], start=[5, 5]), ((2,), "int64", 5, [6, 7]), np.array([0, 6]), [5, 6]),
        (spaces.MultiBinary(2), ((2,), "int64", 0, 1), np.array([1, 2]), [1, 1]),
        (spaces.Box(-1, 1, (2,), np.float64), ((2,), "float32", -1, 1), np.array([3, -0.25]), [1, -0.25]),
        (spaces.Box(0, 10, (2,), np.int64), ((2,), "float32", 0, 10), np.array([2.7, 99.0]), [3, 10]),
        (spaces.Box(-1, np.inf, (1,)), ((1,), "float32", -1, None), np.array([1e9]), [1e9]),
    ],
)
def test_actions_are_clipped_and_typed(space: Any, declared: Any, action: Any, native: Any) -> None:
    found, make = action_space("Toy-v0", space)
    assert described(found) == declared
    made = make(action)
    assert np.asarray(made).tolist() == native
    assert space.contains(made)


def test_a_double_bound_is_not_passed_by_its_rounding() -> None:
    space = spaces.Box(-0.1, 0.1, (1,), np.float64)
    _, make = action_space("Toy-v0", space)
    assert space.contains(make(np.array([0.1], np.float32)))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict(arm=spaces.Box(-1, 1, (2,)), gripper=spaces.Box(0, 5, (1,))),
        spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Tuple([spaces.Box(0, 5, (1,))])]),
    ],
)
def test_boxes_of_a_dict_or_tuple_are_one_vector(space: Any) -> None:
    declared, make = action_space("Toy-v0", space)
    assert described(declared) == ((3,), "float32", [-1, -1, 0], [1, 1, 5])
    made = make(np.array([0.5, -2, 9], np.float32))
    assert space.contains(made)
    assert np.concatenate([np.ravel(part) for part in spaces.flatten(space, made)]).tolist() == [0.5, -1, 5]


@pytest.mark.parametrize(
    ("space", "composition"),
    [
        (spaces.Dict(arm=spaces.Box(0, 1), mode=spaces.Discrete(2)), "a Dict of 'arm': Box, 'mode': Discrete"),
        (spaces.Tuple([spaces.Discrete(2)]), "a Tuple of Discrete"),
        (spaces.Text(9), "a Text"),
    ],
)
def test_actions_that_no_policy_drives(space: Any, composition: str) -> None:
    with pytest.raises(SimulatorError) as caught:
        action_space("Toy-v0", space)
    assert caught.value.message == f"Toy-v0: the action space is {composition}, which no policy could drive"
    assert caught.value.hint
