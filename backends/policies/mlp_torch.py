"""The torch side of `MlpPolicy`: the same networks with gradients, over the same memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ebrl.graph.items import Array


class TorchMlp:
    """Actor and critic as functions of parameters that are views of numpy arrays."""

    def __init__(
        self,
        *,
        arrays: Mapping[str, Array],
        depth: int,
        shift: Array,
        scale: Array,
        clip: float,
        keys: Sequence[str],
        distribution: Any,
    ) -> None:
        self._parameters = {name: torch.nn.Parameter(torch.from_numpy(array)) for name, array in arrays.items()}
        self._depth = depth
        self._shift, self._scale = torch.from_numpy(shift), torch.from_numpy(scale)
        self._clip = clip
        self._keys = tuple(keys)
        self._distribution = distribution

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self._parameters.values())

    def features(self, observations: Mapping[str, Any]) -> Tensor:
        """Normalised features [N, F] of observations [N, ...]."""
        columns = [torch.as_tensor(observations[key], dtype=torch.float32) for key in self._keys]
        joined = torch.cat([column.reshape(len(column), -1) for column in columns], dim=1)
        return ((joined - self._shift) * self._scale).clamp(-self._clip, self._clip)

    def actor(self, features: Tensor) -> Tensor:
        return self._forward("actor", features)

    def critic(self, features: Tensor) -> Tensor:
        return self._forward("critic", features).squeeze(-1)

    def distribution(self, output: Tensor, actions: Any) -> tuple[Tensor, Tensor]:
        log_probs, entropy = self._distribution.torch_evaluate(output, self._parameters, actions)
        return log_probs, entropy

    def _forward(self, name: str, hidden: Tensor) -> Tensor:
        for layer in range(self._depth):
            weight, bias = self._parameters[f"{name}/{layer}/weight"], self._parameters[f"{name}/{layer}/bias"]
            hidden = torch.addmm(bias, hidden, weight)
            if layer < self._depth - 1:
                hidden = torch.tanh(hidden)
        return hidden
