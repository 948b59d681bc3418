from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from ebrl.backends.policies.vision import VisionPolicy
from ebrl.backends.protocols import ActorCritic, Policy, SimulatorSpec, Space
from ebrl.errors import UsageError
from ebrl.graph.items import Batch, Observation, Trajectory
from ebrl.runtime.reporting import State, collect
from ebrl.stages import train_ppo

OBSERVATION = {
    "front": Space((40, 36, 3), "uint8"),
    "hand.wrist": Space((33, 64, 1), "uint8"),
    "state": Space((3,)),
    "instruction": Space((), "str"),
    "time": Space(()),
    "map": Space((5, 5)),
}
UNIT = Space((4,), low=-1.0, high=1.0)
WIDE = Space((2,), low=np.array([-2.0, 0.0], np.float32), high=np.array([2.0, 100.0], np.float32))
CHOICE = Space((), "int64", low=3, high=7)
ACTIONS = {"unit": UNIT, "wide": WIDE, "choice": CHOICE}
TEXTS = ("put the milk into the basket", "open the drawer", "", "Open the DRAWER!", "ἄνοιξον")


def policy(action: Space = UNIT, observation: Mapping[str, Space] = OBSERVATION, **options: Any) -> VisionPolicy:
    return VisionPolicy(SimulatorSpec(observation=observation, action=action), hidden=(32,), **options)


def lively(action: Space = UNIT, **options: Any) -> VisionPolicy:
    """Weights and statistics as after some training, not as initialised."""
    made, rng = policy(action, **options), np.random.default_rng(1)
    arrays = {
        name: array + 0.1 * rng.standard_normal(array.shape).astype(array.dtype)
        for name, array in made.weights().items()
        if not name.startswith("normalization")
    }
    made.update_normalization({"state": rng.normal(2, 3, (100, 3)), "time": rng.normal(0, 0.1, 100)})
    made.load(made.weights() | arrays)
    return made


def batch(rows: int, seed: int = 0) -> Batch[Observation]:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        key: rng.integers(0, 256, (rows, *space.shape), np.uint8)
        if space.dtype == "uint8"
        else rng.standard_normal((rows, *space.shape)).astype(np.float32)
        for key, space in OBSERVATION.items()
    }
    columns["instruction"] = [TEXTS[row % len(TEXTS)] for row in range(rows)]  # a list, as slots give it
    return Batch.stacked(Observation, seeds=rng.integers(0, 2**64, rows, np.uint64), **columns)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for one another are slow where cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("chunk", [1, 3])
def test_shapes_and_types(name: str, chunk: int) -> None:
    space = ACTIONS[name]
    made = policy(space, chunk=chunk)
    assert isinstance(made, Policy)
    assert isinstance(made, ActorCritic)
    assert made.observation_keys == ("front", "hand.wrist", "state", "instruction", "time")
    chunks = made.act(batch(5))
    assert chunks.column("actions").shape == (5, chunk, *space.shape)
    assert chunks.column("actions").dtype == space.dtype
    assert chunks.column("log_probs").shape == (5, chunk, 1 if space.dtype == "int64" else int(np.prod(space.shape)))
    assert chunks.column("log_probs").dtype == np.float32
    assert made.values(batch(5).columns).shape == (5,)


@pytest.mark.parametrize("name", ACTIONS)
def test_at_equal_weights_the_ratio_is_one(name: str) -> None:
    made, rows = lively(ACTIONS[name], chunk=2), batch(70)
    chunks = made.act(rows)
    log_probs, entropy, values = made.evaluate(rows.columns, chunks.column("actions"))
    assert entropy.shape == log_probs.shape == chunks.column("log_probs").shape
    log_ratio = (log_probs.detach().numpy() - chunks.column("log_probs")).sum(axis=-1)
    assert np.abs(np.expm1(log_ratio)).max() < 1e-4
    with torch.no_grad():  # in parts, to save memory
        assert torch.allclose(values, made.values(rows.columns), atol=1e-5)


def test_rows_do_not_influence_one_another() -> None:
    made, rows = lively(chunk=2), batch(13)
    together = made.act(rows)
    for part in (slice(0, 1), slice(5, 8), slice(3, 12), slice(12, 13)):
        alone = made.act(rows[part])
        for column in ("actions", "log_probs"):
            assert np.array_equal(alone.column(column), together.column(column)[part])


@pytest.mark.parametrize("key", ["front", "hand.wrist", "state", "instruction", "time"])
def test_every_observation_counts(key: str) -> None:
    made, rows = lively(), batch(8)
    other = dict(rows.columns) | {key: batch(8, seed=1).columns[key]}
    if key == "instruction":
        other[key] = ["close it"] * 8
    changed = made.act(Batch.stacked(Observation, **other), deterministic=True).column("actions")
    assert (changed != made.act(rows, deterministic=True).column("actions")).any()


def test_the_place_in_the_image_counts() -> None:
    made = lively(observation_keys=("front",))
    images = np.zeros((2, 40, 36, 3), np.uint8)
    images[0, :8, :8], images[1, -8:, -8:] = 255, 255
    actions = made.act(Batch.stacked(Observation, front=images), deterministic=True).column("actions")
    assert not np.allclose(actions[0], actions[1], atol=1e-3)


def test_text_is_read_by_words_the_same_in_every_process() -> None:
    made = lively(observation_keys=("front", "instruction"))
    same = Batch.stacked(Observation, front=np.zeros((5, 40, 36, 3), np.uint8), instruction=np.array(TEXTS))
    actions = made.act(same, deterministic=True).column("actions")
    assert np.array_equal(actions[1], actions[3])
    assert not np.array_equal(actions[0], actions[1])
    program = "from ebrl.backends.policies.vision_torch import _words; print(_words('put the milk'))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


@pytest.mark.parametrize("size", [(32, 32), (32, 200), (128, 96), (257, 65)])
def test_any_size_of_image(size: tuple[int, int]) -> None:
    made = policy(observation={"eye": Space((*size, 3), "uint8")})
    rows = Batch.stacked(Observation, eye=np.zeros((2, *size, 3), np.uint8))
    assert made.act(rows, deterministic=True).column("actions").shape == (2, 1, 4)
    assert not any(name.startswith(("state", "text", "normalization")) for name in made.weights())
    assert sum(array.nbytes for array in made.weights().values()) < 2 << 20
    made.update_normalization(rows.columns)


def test_items_and_columns_give_the_same() -> None:
    made, rows = lively(), batch(3)
    items: Batch[Observation] = Batch([rows[i] for i in range(3)], seeds=rows.seeds)
    assert np.array_equal(made.act(items).column("actions"), made.act(rows).column("actions"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation_keys": ("fronts",)}, "the simulator shows no observation 'fronts'"),
        ({"observation_keys": ("state",)}, "there is no image to see"),
        ({"observation": {"state": Space((3,))}}, "there is no image to see"),
        (
            {"observation": {"eye": Space((3, 64, 64), "uint8")}},
            "image 'eye' has 3 x 64 pixels; expected at least 32 x 32",
        ),
        ({"chunk": 0}, "chunk must be at least 1, not 0"),
        ({"action": Space((2,), "int64", low=0, high=1)}, "integer actions must be one number with a range"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        policy(**options)
    assert caught.value.message == message
    assert caught.value.where == "policy vision"


def test_noise_needs_seeds() -> None:
    with pytest.raises(ValueError, match=r"observations\.seeds, which are missing"):
        policy().act(Batch.stacked(Observation, **batch(2).columns))


def test_weights_go_round_and_loading_is_in_place() -> None:
    one, other = lively(), policy(seed=5)
    before = other.parameters()
    other.load(one.weights())
    rows = batch(4)
    assert np.array_equal(one.act(rows).column("actions"), other.act(rows).column("actions"))
    assert torch.equal(one.values(rows.columns), other.values(rows.columns))
    assert all(old is new for old, new in zip(before, other.parameters(), strict=True))
    copy = pickle.loads(pickle.dumps(one))
    assert np.array_equal(copy.act(rows).column("actions"), one.act(rows).column("actions"))
    with pytest.raises(UsageError, match=r"these weights do not fit: actor/0/weight is \(.*\), expected"):
        policy(observation_keys=("front",)).load(one.weights())


def test_every_parameter_learns() -> None:
    made, rows = lively(), batch(8)
    log_probs, _, values = made.evaluate(rows.columns, made.act(rows).column("actions"))
    (log_probs.sum() + values.sum()).backward()
    assert len(made.parameters()) == len([name for name in made.weights() if not name.startswith("normalization")])
    assert all(parameter.grad.abs().sum() > 0 for parameter in made.parameters())


def seeing(made: VisionPolicy, index: int, version: int, length: int = 24) -> Trajectory:
    """The right action is where the bright square stands, left or right; the opposite where the text says so."""
    rng = np.random.default_rng((index, version))
    right, opposite = rng.integers(0, 2, length + 1), rng.integers(0, 2, length + 1)
    images = rng.integers(0, 100, (length + 1, 32, 32, 3), np.uint8)
    for image, side in zip(images, right, strict=True):
        top, left = rng.integers(0, 24), rng.integers(0, 8) + 16 * side
        image[top : top + 8, left : left + 8] = 255
    texts = np.where(opposite, "away from the light", "to the light")
    seeds = rng.integers(0, 2**64, length, np.uint64)
    chunks = made.act(Batch.stacked(Observation, seeds=seeds, eye=images[:-1], text=texts[:-1].tolist()))
    wanted = np.where(right ^ opposite, 0.5, -0.5)[:-1, None]
    return Trajectory(
        environment=index,
        episode=0,
        start=0,
        observations={"eye": images, "text": texts},
        actions=chunks.column("actions"),
        log_probs=chunks.column("log_probs"),
        rewards=-np.abs(chunks.column("actions")[:, :, 0] - wanted).astype(np.float32),
        steps=np.ones(length, np.int32),
        versions=np.full(length, version, np.int64),
        terminated=False,
        truncated=False,
    )


def test_ppo_learns_what_only_image_and_text_show() -> None:
    made = VisionPolicy(
        SimulatorSpec(
            observation={"eye": Space((32, 32, 3), "uint8"), "text": Space((), "str")},
            action=Space((1,), low=-1.0, high=1.0),
        ),
        log_std=-1.0,
    )
    state, returns = State(), []
    for version in range(24):
        data = Batch([seeing(made, index, version) for index in range(8)])
        returns.append(float(np.mean([part.rewards for part in data])))
        with collect():
            train_ppo(made, data, state, learning_rate=3e-3, gamma=0.0, epochs=4, minibatch=64)
    # Blind, the best is to stay at 0, which costs 0.5.
    assert np.mean(returns[:3]) < -0.5
    assert np.mean(returns[-3:]) > -0.25
