"""A small actor-critic on state observations: acts in numpy, learns in torch, over the same memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebrl.backends.policies.actor_critic import ArrayActorCritic
from ebrl.backends.policies.distributions import distribution_of
from ebrl.backends.policies.layers import dense
from ebrl.backends.policies.normalization import RunningNormalization
from ebrl.backends.protocols import SimulatorSpec
from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.items import ActionChunk, Array, Batch, Observation

WHERE = "policy mlp"
BLOCK = 8
"""Rows of one matrix product when acting. BLAS rounds differently for different batch sizes; with one
fixed size, what a row gets depends neither on the other rows nor on how many they are."""
CLIP = 10.0
"""Normalised features beyond this are cut."""


class MlpPolicy(ArrayActorCritic):
    """Two tanh networks, one for the action distribution and one for the value.

    Acting is plain numpy: at 1 to 8 rows torch's overhead per operation is several times the arithmetic.

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
            raise UsageError(f"chunk must be at least 1, not {chunk}", where=WHERE)
        self.chunk = chunk
        self.observation_keys = _keys(spec, observation_keys)
        self._columns = columns(spec, self.observation_keys)
        features = self._columns[self.observation_keys[-1]].stop
        self._distribution = distribution_of(spec.action, chunk, WHERE)
        self._depth = len(hidden) + 1
        self._normalization = RunningNormalization(features, factors=_factors(self._columns, observation_scales or {}))
        rng = np.random.default_rng(seed)
        arrays = {
            **dense("actor", [features, *hidden, self._distribution.parameters], 0.01, rng),
            **dense("critic", [features, *hidden, 1], 1.0, rng),
            **self._distribution.arrays(log_std),
        }
        super().__init__(
            where=WHERE,
            arrays=arrays,
            state_keys=self.observation_keys,
            normalization=self._normalization if normalize else None,
        )

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

    def _build(self) -> Any:
        from ebrl.backends.policies.mlp_torch import TorchMlp

        return TorchMlp(
            arrays=self._arrays,
            depth=self._depth,
            shift=self._normalization.shift,
            scale=self._normalization.scale,
            clip=CLIP,
            keys=self.observation_keys,
            distribution=self._distribution,
        )


def _keys(spec: SimulatorSpec, wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is None:
        keys = tuple(key for key, space in spec.observation.items() if space.dtype != "str" and len(space.shape) <= 1)
        if not keys:
            raise UsageError("this simulator shows no state that an mlp can read", where=WHERE)
        return keys
    for key in wanted:
        if key not in spec.observation:
            hint = did_you_mean(key, spec.observation)
            raise UsageError(f"the simulator shows no observation {key!r}", where=WHERE, hint=hint)
        if spec.observation[key].dtype == "str":
            raise UsageError(f"observation {key!r} is text, which an mlp cannot read", where=WHERE)
    return tuple(wanted)


def columns(spec: SimulatorSpec, keys: Sequence[str]) -> dict[str, slice]:
    """Where each observation stands when all are flattened and joined."""
    places, start = {}, 0
    for key in keys:
        stop = start + int(np.prod(spec.observation[key].shape))
        places[key] = slice(start, stop)
        start = stop
    return places


def _factors(columns: Mapping[str, slice], scales: Mapping[str, float]) -> Array:
    """[F] the fixed factor of every feature, NaN where it has none."""
    factors = np.full(max(place.stop for place in columns.values()), np.nan)
    for key, factor in scales.items():
        if key not in columns:
            hint = did_you_mean(key, columns)
            raise UsageError(f"a scale is given for {key!r}, which is not observed", where=WHERE, hint=hint)
        factors[columns[key]] = factor
    return factors
