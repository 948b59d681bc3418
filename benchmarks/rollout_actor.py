"""The network of the policy `mlp` as the peers act with it: torch, without gradients, on one thread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[Any]]


class Actor:
    """Two tanh networks: an action distribution, and a value. Initial weights and exploration are like EBRL's, as what
    a simulator does costs what the actions make it do.

    features: F, size of the observation vector; low, high: [A], the range of actions, whose half width is the unit of
    the distribution; hidden: sizes of the hidden layers; log_std: of the Gaussian.
    """

    def __init__(
        self, features: int, low: Array, high: Array, *, hidden: Sequence[int], log_std: float, seed: int
    ) -> None:
        torch.manual_seed(seed)
        dimensions = len(low)
        self._policy = _network([features, *hidden, dimensions], gain=0.01)
        self._value = _network([features, *hidden, 1], gain=1.0)
        self._log_std = torch.full((dimensions,), log_std)
        self._std = self._log_std.exp()
        self._low, self._high = (torch.from_numpy(bound.astype(np.float32)) for bound in (low, high))
        self._center, self._half_width = (self._low + self._high) / 2, (self._high - self._low) / 2
        self._constant = self._log_std + self._half_width.log() + 0.5 * math.log(2 * math.pi)

    @torch.no_grad()
    def act(self, observations: Array) -> tuple[Array, Array, Array]:
        """[N, F] float32 -> actions [N, A] within their range, and log-probabilities and values, both [N]."""
        rows = torch.from_numpy(observations)
        mean, value = self._policy(rows), self._value(rows)
        noise = torch.randn_like(mean)
        log_prob = -(0.5 * noise.square() + self._constant).sum(-1)
        actions = (mean + self._std * noise) * self._half_width + self._center
        clipped = torch.clamp(actions, self._low, self._high)
        return clipped.numpy(), log_prob.numpy(), value.squeeze(-1).numpy()


def _network(sizes: Sequence[int], *, gain: float) -> torch.nn.Sequential:
    """Tanh between linear layers; orthogonal weights with gain sqrt(2), `gain` for the last layer."""
    layers: list[torch.nn.Module] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        linear = torch.nn.Linear(inputs, outputs)
        torch.nn.init.orthogonal_(linear.weight, gain if last else 2**0.5)
        torch.nn.init.zeros_(linear.bias)
        layers += [linear] if last else [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers)
