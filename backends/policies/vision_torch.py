"""The torch side of `VisionPolicy`: encoders of images, texts and state before the networks of `TorchMlp`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ebrl.backends.policies.mlp_torch import TorchMlp

BUCKETS = 512
"""Rows of an embedding table; a word has the row of its hash."""
_MOST = 64  # rows that are encoded at once where no gradients are asked for: convolutions need memory


class TorchVision(TorchMlp):
    """`images`: key -> number of convolutions; `state` and `texts`: keys. Parameters are views of the arrays."""

    def __init__(
        self, *, state: Sequence[str], images: Mapping[str, int], texts: Sequence[str], **networks: Any
    ) -> None:
        super().__init__(keys=state, **networks)
        self._images = dict(images)
        self._texts = tuple(texts)

    def features(self, observations: Mapping[str, Any]) -> Tensor:
        """Joint features [N, F] of observations [N, ...]; texts are arrays or lists of str."""
        rows = len(observations[next(iter(self._images))])
        if torch.is_grad_enabled() or rows <= _MOST:
            return self._encode(observations)
        keys = (*self._images, *self._texts, *self._keys)
        parts = [{key: observations[key][at : at + _MOST] for key in keys} for at in range(0, rows, _MOST)]
        return torch.cat([self._encode(part) for part in parts])

    def _encode(self, observations: Mapping[str, Any]) -> Tensor:
        encoded = [self._see(key, observations[key]) for key in self._images]
        encoded += [self._read(key, observations[key]) for key in self._texts]
        if self._keys:
            weight, bias = self._layer("state/0")
            encoded.append(torch.tanh(torch.addmm(bias, super().features(observations), weight)))
        return torch.cat(encoded, dim=1)

    def _see(self, key: str, images: Any) -> Tensor:
        """uint8 [N, H, W, C] -> [N, features]"""
        hidden = torch.as_tensor(images).permute(0, 3, 1, 2).float().mul_(1 / 255).sub_(0.5)
        for layer in range(self._images[key]):
            weight, bias = self._layer(f"image/{key}/{layer}")
            hidden = functional.relu(functional.conv2d(hidden, weight, bias, stride=2, padding=1))
        weight, bias = self._layer(f"image/{key}")
        features = torch.addmm(bias, hidden.flatten(1), weight)
        # Bounded features: without, a few bright pixels drive the tanh networks into saturation.
        return torch.tanh(functional.layer_norm(features, features.shape[1:]))

    def _read(self, key: str, texts: Sequence[str]) -> Tensor:
        """Texts -> [N, features], the mean of the embeddings of their words; zero for a text without any."""
        words = [_words(str(text)) for text in texts]
        offsets = torch.tensor([0, *map(len, words)]).cumsum(0)[:-1]
        flat = torch.tensor([word for text in words for word in text], dtype=torch.int64)
        return functional.embedding_bag(flat, self._parameters[f"text/{key}"], offsets, mode="mean")

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self._parameters[f"{name}/weight"], self._parameters[f"{name}/bias"]


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[int, ...]:
    # Python's own hash differs from process to process.
    return tuple(zlib.crc32(word.encode()) % BUCKETS for word in re.findall(r"\w+", text.lower()))
