"""What the actor-critics here have in common: weights as numpy arrays, which torch learns in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebrl.backends.policies.layers import check_fit
from ebrl.backends.policies.normalization import RunningNormalization
from ebrl.graph.items import Array


class ArrayActorCritic:
    """Everything of `ActorCritic` but acting.

    The torch side is made on first use (`_build`); its parameters share their memory with the arrays, so an
    optimiser step is visible at once to whoever reads those.
    """

    observation_keys: tuple[str, ...]

    def __init__(
        self,
        *,
        where: str,
        arrays: dict[str, Array],
        state_keys: tuple[str, ...],
        normalization: RunningNormalization | None,
    ) -> None:
        """`normalization`: running statistics of the observations `state_keys`, joined; None keeps none."""
        self._where = where
        self._arrays = arrays
        self._state_keys = state_keys
        self._statistics = normalization
        self._torch: Any = None

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
        if self._statistics is not None:
            columns = [np.asarray(observations[key]) for key in self._state_keys]
            self._statistics.update(np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1))

    def weights(self) -> dict[str, Array]:
        copies = {name: array.copy() for name, array in self._arrays.items()}
        return copies if self._statistics is None else copies | self._statistics.arrays()

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over weights, in place. Raises UsageError when they belong to another architecture."""
        expected = self._arrays if self._statistics is None else {**self._arrays, **self._statistics.arrays()}
        check_fit(arrays, expected, self._where)
        for name, array in self._arrays.items():
            array[...] = arrays[name]
        if self._statistics is not None:
            self._statistics.load(arrays)

    def __getstate__(self) -> dict[str, Any]:
        # Torch parameters would come back with memory of their own.
        return {**self.__dict__, "_torch": None}

    def _network(self) -> Any:
        if self._torch is None:
            self._torch = self._build()
        return self._torch

    def _build(self) -> Any:
        """The torch side, over the memory of the arrays; see `TorchMlp`."""
        raise NotImplementedError
