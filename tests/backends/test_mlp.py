from __future__ import annotations

import pickle
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch

from ebrl.backends.policies.mlp import MlpPolicy
from ebrl.backends.protocols import ActorCritic, Policy, SimulatorSpec, Space
from ebrl.errors import UsageError
from ebrl.graph.items import Batch, Observation

OBSERVATION = {"hand": Space((3,)), "image": Space((4, 4, 3), "uint8"), "text": Space((), "str"), "cube": Space((2,))}
UNIT = Space((4,), low=-1.0, high=1.0)
WIDE = Space((2,), low=np.array([-2.0, 0.0], np.float32), high=np.array([2.0, 100.0], np.float32))
OPEN = Space((2, 2), low=None, high=None)
CHOICE = Space((), "int64", low=3, high=7)
ACTIONS = {"unit": UNIT, "wide": WIDE, "open": OPEN, "choice": CHOICE}


def policy(action: Space = UNIT, **options: Any) -> MlpPolicy:
    return MlpPolicy(SimulatorSpec(observation=OBSERVATION, action=action), **options)


def lively(action: Space = UNIT, **options: Any) -> MlpPolicy:
    """Weights and statistics as after some training, not as initialised."""
    made, rng = policy(action, **options), np.random.default_rng(1)
    arrays = {
        name: array + 0.3 * rng.standard_normal(array.shape).astype(array.dtype)
        for name, array in made.weights().items()
        if not name.startswith("normalization")
    }
    made.update_normalization({"hand": rng.normal(2, 3, (100, 3)), "cube": rng.normal(0, 0.1, (100, 2))})
    made.load(made.weights() | arrays)
    return made


def batch(rows: int, seed: int = 0) -> Batch[Observation]:
    rng = np.random.default_rng(seed)
    return Batch.stacked(
        Observation,
        seeds=rng.integers(0, 2**64, rows, np.uint64),
        hand=rng.standard_normal((rows, 3)).astype(np.float32),
        cube=rng.standard_normal((rows, 2)).astype(np.float32),
    )


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("chunk", [1, 3])
def test_shapes_and_types(name: str, chunk: int) -> None:
    space = ACTIONS[name]
    made = policy(space, chunk=chunk)
    assert isinstance(made, Policy)
    assert isinstance(made, ActorCritic)
    chunks = made.act(batch(5))
    assert chunks.column("actions").shape == (5, chunk, *space.shape)
    assert chunks.column("actions").dtype == space.dtype
    assert chunks.column("log_probs").shape == (5, chunk, 1 if space.dtype == "int64" else int(np.prod(space.shape)))
    assert chunks.column("log_probs").dtype == np.float32
    assert len(chunks[0]) == chunk
    assert made.values(batch(5).columns).shape == (5,)


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_rows_do_not_influence_one_another(name: str, deterministic: bool) -> None:
    made, rows = lively(ACTIONS[name], chunk=2), batch(37)
    together = made.act(rows, deterministic=deterministic)
    for part in (slice(0, 1), slice(5, 8), slice(3, 20), slice(36, 37)):
        alone = made.act(rows[part], deterministic=deterministic)
        for column in ("actions", "log_probs"):
            assert np.array_equal(alone.column(column), together.column(column)[part])


@pytest.mark.parametrize("name", ACTIONS)
def test_at_equal_weights_the_ratio_is_one(name: str) -> None:
    made, rows = lively(ACTIONS[name], chunk=2), batch(300)
    chunks = made.act(rows)
    log_probs, entropy, values = made.evaluate(rows.columns, chunks.column("actions"))
    assert entropy.shape == log_probs.shape == chunks.column("log_probs").shape
    log_ratio = (log_probs.detach().numpy() - chunks.column("log_probs")).sum(axis=-1)
    assert np.abs(np.expm1(log_ratio)).max() < 1e-5
    assert torch.equal(values, made.values(rows.columns))


def test_density_is_in_the_units_of_the_simulator() -> None:
    made, rows = lively(WIDE), batch(1)
    chunks = made.act(rows)
    output = made._actor(made._gather(rows, 1))[:1]
    mean = output * [2.0, 50.0] + [0.0, 50.0]
    std = np.exp(made.weights()["log_std"]) * [2.0, 50.0]
    expected = torch.distributions.Normal(torch.tensor(mean), torch.tensor(std))
    actions = torch.tensor(chunks.column("actions")[0])
    assert np.allclose(expected.log_prob(actions)[0], chunks.column("log_probs")[0, 0], atol=1e-4)
    _, entropy, _ = made.evaluate(rows.columns, actions)
    assert np.allclose(expected.entropy()[0], entropy.detach()[0, 0], atol=1e-5)


def test_categorical_draws_follow_the_distribution() -> None:
    made = lively(CHOICE)
    row = batch(1)
    many = Batch.stacked(
        Observation,
        seeds=np.arange(20_000, dtype=np.uint64),
        **{key: np.repeat(value, 20_000, axis=0) for key, value in row.columns.items()},
    )
    actions = made.act(many).column("actions")[:, 0]
    logits = made._actor(made._gather(row, 1))[0].astype(np.float64)
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert np.allclose(np.bincount(actions - 3, minlength=5) / 20_000, shares, atol=0.015)
    best = made.act(row, deterministic=True).column("actions")[0, 0]
    assert best == 3 + logits.argmax()


def test_noise_is_normal_and_deterministic_is_its_mean() -> None:
    made = policy(log_std=-1.0)
    rows = batch(20_000)
    same = Batch.stacked(Observation, seeds=rows.seeds, hand=np.zeros((20_000, 3)), cube=np.zeros((20_000, 2)))
    actions = made.act(same).column("actions")[:, 0]
    mean = made.act(same, deterministic=True).column("actions")[:, 0]
    assert np.allclose(actions.mean(0), mean[0], atol=0.02)
    assert np.allclose(actions.std(0), np.exp(-1.0), atol=0.01)


def test_noise_needs_seeds() -> None:
    rows = batch(2)
    with pytest.raises(ValueError, match=r"observations\.seeds, which are missing"):
        policy().act(Batch.stacked(Observation, **rows.columns))
    policy().act(Batch.stacked(Observation, **rows.columns), deterministic=True)


def test_items_and_columns_give_the_same() -> None:
    made, rows = lively(), batch(3)
    items: Batch[Observation] = Batch([rows[i] for i in range(3)], seeds=rows.seeds)
    assert np.array_equal(made.act(items).column("actions"), made.act(rows).column("actions"))


def test_observation_keys_choose_and_order() -> None:
    assert policy().observation_keys == ("hand", "cube")
    made = policy(observation_keys=("cube", "hand"))
    assert made.weights()["actor/0/weight"].shape[0] == 5
    features = made._gather(batch(1), 1)
    assert np.array_equal(features[0, :2], batch(1).column("cube")[0])
    assert policy(observation_keys=("image",)).weights()["actor/0/weight"].shape[0] == 48


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation_keys": ("hands",)}, "the simulator shows no observation 'hands'"),
        ({"observation_keys": ("text",)}, "observation 'text' is text, which an mlp cannot read"),
        ({"observation_scales": {"cubes": 1.0}}, "a scale is given for 'cubes', which is not observed"),
        ({"chunk": 0}, "chunk must be at least 1, not 0"),
        ({"action": Space((2,), "int64", low=0, high=1)}, "integer actions must be one number with a range"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        policy(**options)
    assert caught.value.message == message
    assert caught.value.where == "policy mlp"


def test_images_alone_are_refused() -> None:
    spec = SimulatorSpec(observation={"image": Space((4, 4, 3), "uint8")}, action=UNIT)
    with pytest.raises(UsageError, match="shows no state that an mlp can read"):
        MlpPolicy(spec)


def test_weights_go_round_and_loading_is_in_place() -> None:
    one, other = lively(), policy(seed=5)
    before = other.parameters()
    other.load(one.weights())
    rows = batch(4)
    assert np.array_equal(one.act(rows).column("actions"), other.act(rows).column("actions"))
    assert torch.equal(one.values(rows.columns), other.values(rows.columns))
    assert all(old is new for old, new in zip(before, other.parameters(), strict=True))
    kept = one.weights()
    one.load(policy(seed=5).weights())
    assert not np.array_equal(kept["actor/0/weight"], one.weights()["actor/0/weight"])


def test_weights_of_another_architecture_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        policy().load(policy(hidden=(32, 64)).weights())
    assert caught.value.message == "these weights do not fit: actor/0/bias is (32,), expected (64,)"
    with pytest.raises(UsageError, match="normalization/count is missing"):
        policy().load(policy(normalize=False).weights())


def test_an_optimiser_step_is_seen_when_acting() -> None:
    made, rows = lively(), batch(3)
    before = made.act(rows, deterministic=True).column("actions")
    optimizer = torch.optim.SGD(made.parameters(), lr=0.5)
    log_probs, _, _ = made.evaluate(rows.columns, before + 0.1)
    (-log_probs.sum()).backward()
    optimizer.step()
    assert not np.array_equal(before, made.act(rows, deterministic=True).column("actions"))


def test_statistics_change_only_when_told_to() -> None:
    made, rows = lively(), batch(100)
    before = made.weights()
    made.act(rows)
    made.evaluate(rows.columns, made.act(rows).column("actions"))
    made.values(rows.columns)
    assert all(np.array_equal(array, before[name]) for name, array in made.weights().items())
    made.update_normalization(rows.columns)
    assert not np.array_equal(before["normalization/mean"], made.weights()["normalization/mean"])


def test_without_normalisation_there_are_no_statistics() -> None:
    made = policy(normalize=False)
    made.update_normalization(batch(10).columns)
    assert not any(name.startswith("normalization") for name in made.weights())


def test_the_seed_decides_the_initial_weights() -> None:
    def weights(seed: int) -> Any:
        return policy(seed=seed).weights()["critic/1/weight"]

    assert np.array_equal(weights(1), weights(1))
    assert not np.array_equal(weights(1), weights(2))
    assert np.allclose(weights(1).T @ weights(1), 2 * np.eye(64), atol=1e-5)


def test_a_pickled_policy_is_whole() -> None:
    made, rows = lively(), batch(3)
    made.parameters()
    copy = pickle.loads(pickle.dumps(made))
    assert np.array_equal(copy.act(rows).column("actions"), made.act(rows).column("actions"))
    torch.optim.SGD(copy.parameters(), lr=1.0)
    with torch.no_grad():
        copy.parameters()[0].add_(1.0)
    assert not np.array_equal(copy.weights()["actor/0/weight"], made.weights()["actor/0/weight"])
    assert not np.array_equal(copy.act(rows).column("actions"), made.act(rows).column("actions"))


def test_acting_imports_no_torch() -> None:
    program = """
import sys
import numpy as np
from ebrl.backends.policies.mlp import MlpPolicy
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Batch, Observation
policy = MlpPolicy(SimulatorSpec(observation={"state": Space((3,))}, action=Space((2,), low=-1.0, high=1.0)))
policy.load(policy.weights())
policy.act(Batch.stacked(Observation, seeds=np.zeros(1, np.uint64), state=np.zeros((1, 3), np.float32)))
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_call_costs_little() -> None:
    made, rows = policy(), batch(8)
    best = min(_seconds_per_call(made, rows) for _ in range(20))
    assert best < 150e-6


def _seconds_per_call(made: MlpPolicy, rows: Batch[Observation], calls: int = 50) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        made.act(rows)
    return (time.perf_counter() - began) / calls
