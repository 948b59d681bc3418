"""Action distributions of a chunk: sampled in numpy, evaluated in torch, by the same formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ebrl.backends.policies.noise import normal, uniform
from ebrl.backends.protocols import Space
from ebrl.errors import UsageError
from ebrl.graph.items import Array

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Gaussian:
    """Independent normal distributions around the network's output, with learned deviations per dimension.

    Where the action range is finite, mean 0 and deviation 1 stand for its centre and half width: the
    same initial `log_std` then explores a range of 1 and one of 100 alike. Densities are those of the
    simulator's units.
    """

    def __init__(self, *, chunk: int, shape: tuple[int, ...], low: Any, high: Any) -> None:
        self.chunk = chunk
        self.shape = shape
        self.dimensions = math.prod(shape)
        self.parameters = chunk * self.dimensions
        self.center, self.half_width = _range(self.dimensions, low, high)
        self._constant = (_HALF_LOG_2PI + np.log(self.half_width)).astype(np.float32)
        self._unit = bool((self.center == 0).all() and (self.half_width == 1).all())

    def arrays(self, log_std: float) -> dict[str, Array]:
        """Weights beside the network's: ``log_std`` [K, A]."""
        return {"log_std": np.full((self.chunk, self.dimensions), log_std, np.float32)}

    def sample(self, output: Array, arrays: Mapping[str, Array], seeds: Array | None) -> tuple[Array, Array]:
        """Network output [B, K * A] -> actions [B, K, *shape] and log_probs [B, K, A]; the mean without seeds."""
        rows = len(output)
        mean = output.reshape(rows, self.chunk, self.dimensions)
        log_std = arrays["log_std"]
        std = np.exp(log_std)
        if seeds is None:
            raw = mean.copy()
        else:
            raw = normal(seeds, self.parameters).reshape(mean.shape)
            raw *= std
            raw += mean
        actions = raw
        if not self._unit:
            actions = raw * self.half_width + self.center
            raw = (actions - self.center) / self.half_width
        # From the rounded action, as training will see it, not from the noise that made it.
        log_probs = raw - mean
        log_probs /= std
        np.square(log_probs, out=log_probs)
        log_probs *= -0.5
        log_probs -= log_std + self._constant
        return actions.reshape(rows, self.chunk, *self.shape), log_probs

    def torch_evaluate(self, output: Any, parameters: Mapping[str, Any], actions: Any) -> tuple[Any, Any]:
        """log_probs and entropy [N, K, A] of given actions, as torch tensors."""
        import torch

        mean = output.reshape(-1, self.chunk, self.dimensions)
        log_std = parameters["log_std"]
        raw = torch.as_tensor(actions, dtype=torch.float32).reshape(mean.shape)
        if not self._unit:
            raw = (raw - torch.from_numpy(self.center)) / torch.from_numpy(self.half_width)
        scaled = (raw - mean) / log_std.exp()
        log_width = log_std + torch.from_numpy(self._constant)
        return -0.5 * scaled.square() - log_width, (log_width + 0.5).expand_as(mean)


class Categorical:
    """One of `choices` integers from `first` on, per action of the chunk."""

    def __init__(self, *, chunk: int, first: int, choices: int) -> None:
        self.chunk = chunk
        self.first = first
        self.choices = choices
        self.parameters = chunk * choices

    def arrays(self, log_std: float) -> dict[str, Array]:
        """No weights beside the network's; a deviation has no meaning here."""
        return {}

    def sample(self, output: Array, arrays: Mapping[str, Array], seeds: Array | None) -> tuple[Array, Array]:
        """Logits [B, K * choices] -> actions [B, K] int64 and log_probs [B, K, 1]; the likeliest without seeds."""
        rows = len(output)
        logits = output.reshape(rows, self.chunk, self.choices)
        scores = logits
        if seeds is not None:  # the Gumbel trick: one argmax instead of a search in cumulated probabilities
            scores = logits - np.log(-np.log(uniform(seeds, self.parameters))).reshape(logits.shape)
        chosen = scores.argmax(axis=-1, keepdims=True)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        log_probs = np.take_along_axis(shifted, chosen, -1) - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return chosen[..., 0] + self.first, log_probs.astype(np.float32, copy=False)

    def torch_evaluate(self, output: Any, parameters: Mapping[str, Any], actions: Any) -> tuple[Any, Any]:
        """log_probs and entropy [N, K, 1] of given actions, as torch tensors."""
        import torch

        log_shares = output.reshape(-1, self.chunk, self.choices).log_softmax(dim=-1)
        chosen = torch.as_tensor(actions, dtype=torch.int64).reshape(-1, self.chunk, 1) - self.first
        entropy = -(log_shares.exp() * log_shares).sum(dim=-1, keepdim=True)
        return log_shares.gather(-1, chosen), entropy


def distribution_of(action: Space, chunk: int, where: str) -> Gaussian | Categorical:
    """Gaussian for real actions, categorical for one integer; raises UsageError, in the name of `where`, for others."""
    if np.issubdtype(np.dtype(action.dtype), np.integer):
        if action.shape or action.low is None or action.high is None:
            raise UsageError("integer actions must be one number with a range", where=where)
        return Categorical(chunk=chunk, first=int(action.low), choices=int(action.high) - int(action.low) + 1)
    return Gaussian(chunk=chunk, shape=action.shape, low=action.low, high=action.high)


def _range(dimensions: int, low: Any, high: Any) -> tuple[Array, Array]:
    """Centre and half width [A] float32; 0 and 1 in dimensions without a finite range."""

    def bound(value: Any, default: float) -> Array:
        return np.broadcast_to(np.asarray(default if value is None else value, np.float64).reshape(-1), (dimensions,))

    lower, upper = bound(low, -np.inf), bound(high, np.inf)
    finite = np.isfinite(lower) & np.isfinite(upper) & (upper > lower)
    center = np.where(finite, (np.where(finite, lower, 0.0) + np.where(finite, upper, 0.0)) / 2, 0.0)
    half = np.where(finite, (np.where(finite, upper, 0.0) - np.where(finite, lower, 0.0)) / 2, 1.0)
    return center.astype(np.float32), half.astype(np.float32)
