"""A small actor-critic on state observations: acts in numpy, learns in torch, over the same memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ebrl.backends.policies.distributions import Categorical, Gaussian
from ebrl.backends.policies.normalization import RunningNormalization
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.items import ActionChunk, Array, Batch, Observation

BLOCK = 8
"""Rows of one matrix product when acting. BLAS rounds differently for different batch sizes; with one
fixed size, what a row gets depends neither on the other rows nor on how many they are."""
CLIP = 10.0
"""Normalised features beyond this are cut."""


class MlpPolicy:
    """Two tanh networks, one for the action distribution and one for the value.

    Acting is plain numpy: at 1 to 8 rows torch's overhead per operation is several times the arithmetic.
    The torch side is made on the first `parameters`, `evaluate` or `values`; its parameters share their
    memory with the arrays, so an optimiser step is visible to `act` at once.

    spec: what the simulator declares; decides features and action distribution (Gaussian in the unit of
        the action range for Box actions, categorical for Discrete ones).
    hidden: sizes of the hidden layers, of both networks.
    chunk: K, actions planned at once from one observation.
    log_std: initial log standard deviation, in units of half the action range.
    normalize: keep running statistics of the features; see `update_normalization`.
    observation_keys: which observations to use, concatenated in this order; None takes all numeric ones
        of at most one dimension, in the order of the spec.
    observation_scales: a fixed factor for some of them, which then take no part in the running statistics.
        Meant for differences and errors: their zero is the goal, and a network that sees it as zero
        learns to go there far sooner than one that sees it shifted by a mean.
    seed: of the initial weights.
    """

    def __init__(
        self,
        spec: SimulatorSpec,
        *,
        hidden: Sequence[int] = (64, 64),
        chunk: int = 1,
        log_std: float = -0.5,
        normalize: bool = True,
        observation_keys: Sequence[str] | None = None,
        observation_scales: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        if chunk < 1:
            raise UsageError(f"chunk must be at least 1, not {chunk}", where="policy mlp")
        self.chunk = chunk
        self.observation_keys = _keys(spec, observation_keys)
        self._columns = _columns(spec, self.observation_keys)
        features = self._columns[self.observation_keys[-1]].stop
        self._distribution = _distribution(spec.action, chunk)
        self._depth = len(hidden) + 1
        self._normalization = RunningNormalization(features, factors=_factors(self._columns, observation_scales or {}))
        self._normalize = normalize
        rng = np.random.default_rng(seed)
        self._arrays = {
            **_network("actor", [features, *hidden, self._distribution.parameters], 0.01, rng),
            **_network("critic", [features, *hidden, 1], 1.0, rng),
            **self._distribution.arrays(log_std),
        }
        self._torch: Any = None

    def act(self, observations: Batch[Observation], *, deterministic: bool = False) -> Batch[ActionChunk]:
        """Plan a chunk for every row: `actions` [B, K, *shape], `log_probs` [B, K, A] float32.

        The noise of a row comes from its entry of ``observations.seeds`` and nothing else.
        """
        rows = len(observations)
        seeds = None if deterministic else observations.seeds
        if seeds is None and not deterministic:
            raise ValueError("act() draws its noise from observations.seeds, which are missing")
        output = self._actor(self._gather(observations, rows))[:rows]
        actions, log_probs = self._distribution.sample(output, self._arrays, seeds)
        return Batch.stacked(ActionChunk, actions=actions, log_probs=log_probs)

    def evaluate(self, observations: Mapping[str, Any], actions: Any) -> tuple[Any, Any, Any]:
        """Torch tensors with gradients: log_probs [N, K, A], entropy [N, K, A] and values [N].

        observations: each key [N, ...]; actions: [N, K, *shape] as `act` gave them.
        """
        network = self._network()
        features = network.features(observations)
        log_probs, entropy = network.distribution(network.actor(features), actions)
        return log_probs, entropy, network.critic(features)

    def values(self, observations: Mapping[str, Any]) -> Any:
        """The critic's estimate for every row: a torch tensor [N] with gradients."""
        network = self._network()
        return network.critic(network.features(observations))

    def parameters(self) -> list[Any]:
        """All torch parameters, in a fixed order."""
        parameters: list[Any] = self._network().parameters()
        return parameters

    def update_normalization(self, observations: Mapping[str, Any]) -> None:
        """Add observations [N, ...] to the running statistics.

        This changes what the policy does, so training calls it after its optimisation and before it
        publishes weights; at no other time do the statistics change.
        """
        if self._normalize:
            columns = [np.asarray(observations[key]) for key in self.observation_keys]
            self._normalization.update(np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1))

    def weights(self) -> dict[str, Array]:
        copies = {name: array.copy() for name, array in self._arrays.items()}
        return copies | self._normalization.arrays() if self._normalize else copies

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over weights, in place. Raises UsageError when they belong to another architecture."""
        expected = {**self._arrays, **(self._normalization.arrays() if self._normalize else {})}
        for name in sorted({*expected, *arrays}):
            have = arrays[name].shape if name in arrays else "missing"
            want = expected[name].shape if name in expected else "unknown"
            if have != want:
                raise UsageError(
                    f"these weights do not fit: {name} is {have}, expected {want}",
                    where="policy mlp",
                    hint="use the options (hidden, chunk, observation_keys) of the run that made them",
                )
        for name, array in self._arrays.items():
            array[...] = arrays[name]
        if self._normalize:
            self._normalization.load(arrays)

    def __getstate__(self) -> dict[str, Any]:
        # Torch parameters would come back with memory of their own.
        return {**self.__dict__, "_torch": None}

    def _gather(self, observations: Batch[Observation], rows: int) -> Array:
        """Features [R, F], R the next multiple of BLOCK, zero beyond the rows."""
        features = np.zeros((-(-rows // BLOCK) * BLOCK, len(self._normalization.shift)), np.float32)
        for key, place in self._columns.items():
            features[:rows, place] = observations.column(key).reshape(rows, place.stop - place.start)
        return features

    def _actor(self, features: Array) -> Array:
        features -= self._normalization.shift
        features *= self._normalization.scale
        np.minimum(features, CLIP, out=features)
        np.maximum(features, -CLIP, out=features)
        hidden = features.reshape(-1, BLOCK, features.shape[1])
        for layer in range(self._depth):
            hidden = np.matmul(hidden, self._arrays[f"actor/{layer}/weight"])
            hidden += self._arrays[f"actor/{layer}/bias"]
            if layer < self._depth - 1:
                np.tanh(hidden, out=hidden)
        return hidden.reshape(len(features), hidden.shape[-1])

    def _network(self) -> Any:
        if self._torch is None:
            from ebrl.backends.policies.mlp_torch import TorchMlp

            self._torch = TorchMlp(
                arrays=self._arrays,
                depth=self._depth,
                shift=self._normalization.shift,
                scale=self._normalization.scale,
                clip=CLIP,
                keys=self.observation_keys,
                distribution=self._distribution,
            )
        return self._torch


def _keys(spec: SimulatorSpec, wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is None:
        keys = tuple(key for key, space in spec.observation.items() if space.dtype != "str" and len(space.shape) <= 1)
        if not keys:
            raise UsageError("this simulator shows no state that an mlp can read", where="policy mlp")
        return keys
    for key in wanted:
        if key not in spec.observation:
            hint = did_you_mean(key, spec.observation)
            raise UsageError(f"the simulator shows no observation {key!r}", where="policy mlp", hint=hint)
        if spec.observation[key].dtype == "str":
            raise UsageError(f"observation {key!r} is text, which an mlp cannot read", where="policy mlp")
    return tuple(wanted)


def _columns(spec: SimulatorSpec, keys: Sequence[str]) -> dict[str, slice]:
    columns, start = {}, 0
    for key in keys:
        stop = start + int(np.prod(spec.observation[key].shape))
        columns[key] = slice(start, stop)
        start = stop
    return columns


def _factors(columns: Mapping[str, slice], scales: Mapping[str, float]) -> Array:
    """[F] the fixed factor of every feature, NaN where it has none."""
    factors = np.full(max(place.stop for place in columns.values()), np.nan)
    for key, factor in scales.items():
        if key not in columns:
            hint = did_you_mean(key, columns)
            raise UsageError(f"a scale is given for {key!r}, which is not observed", where="policy mlp", hint=hint)
        factors[columns[key]] = factor
    return factors


def _distribution(action: Space, chunk: int) -> Gaussian | Categorical:
    if np.issubdtype(np.dtype(action.dtype), np.integer):
        if action.shape or action.low is None or action.high is None:
            raise UsageError("integer actions must be one number with a range", where="policy mlp")
        return Categorical(chunk=chunk, first=int(action.low), choices=int(action.high) - int(action.low) + 1)
    return Gaussian(chunk=chunk, shape=action.shape, low=action.low, high=action.high)


def _network(name: str, sizes: Sequence[int], gain: float, rng: np.random.Generator) -> dict[str, Array]:
    """Orthogonal weights [in, out] with gain sqrt(2), `gain` for the last layer; zero biases."""
    arrays: dict[str, Array] = {}
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        last = layer == len(sizes) - 2
        arrays[f"{name}/{layer}/weight"] = _orthogonal(rows, columns, rng) * np.float32(gain if last else 2**0.5)
        arrays[f"{name}/{layer}/bias"] = np.zeros(columns, np.float32)
    return arrays


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    tall = rng.standard_normal((max(rows, columns), min(rows, columns)))
    basis, upper = np.linalg.qr(tall)
    basis *= np.sign(np.diag(upper))  # makes the factorisation, and so the weights, unique
    return np.ascontiguousarray(basis if rows >= columns else basis.T, dtype=np.float32)
