"""A small actor-critic that sees and reads: images, instructions and state. Loading this loads torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ebrl.backends.policies.actor_critic import ArrayActorCritic
from ebrl.backends.policies.distributions import distribution_of
from ebrl.backends.policies.layers import dense, orthogonal
from ebrl.backends.policies.mlp import CLIP, columns
from ebrl.backends.policies.normalization import RunningNormalization
from ebrl.backends.policies.vision_torch import BUCKETS, TorchVision
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.items import ActionChunk, Array, Batch, Observation

WHERE = "policy vision"
BLOCK = 4
"""Rows that the network sees at once when acting. Its products round differently for different batch sizes;
with one fixed size, what a row gets depends neither on the other rows nor on how many they are."""
SMALLEST = 32
"""Pixels that an image must have in each direction."""
GRID = 8
"""Convolutions halve an image until it is at most so many cells high and wide."""
CHANNELS = (16, 32)
"""Of the first and of all further convolutions."""
IMAGE_FEATURES, TEXT_FEATURES, STATE_FEATURES = 64, 16, 64


class VisionPolicy(ArrayActorCritic):
    """A convolutional encoder per image, a mean of word embeddings per text and a layer for the state feed two
    tanh networks, one for the action distribution and one for the value.

    Images are uint8 [height, width, channels] and stay so until they are in the network. Words are hashed, so
    there is no vocabulary to fetch; nothing is pretrained.

    spec: what the simulator declares; decides encoders and action distribution, as for `MlpPolicy`.
    hidden: sizes of the hidden layers, of both networks.
    chunk: K, actions planned at once from one observation.
    log_std: initial log standard deviation, in units of half the action range.
    normalize: keep running statistics of the state; see `update_normalization`.
    observation_keys: which observations to use; None takes all images, all texts, and all numeric ones of at
        most one dimension.
    seed: of the initial weights.

    Raises UsageError where there is no image, or one of less than 32 pixels in a direction.
    """

    def __init__(
        self,
        spec: SimulatorSpec,
        *,
        hidden: Sequence[int] = (128,),
        chunk: int = 1,
        log_std: float = -0.5,
        normalize: bool = True,
        observation_keys: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        if chunk < 1:
            raise UsageError(f"chunk must be at least 1, not {chunk}", where=WHERE)
        self.chunk = chunk
        self.observation_keys = _keys(spec, observation_keys)
        shown = {key: spec.observation[key] for key in self.observation_keys}
        self._images = {key: space.shape for key, space in shown.items() if _is_image(space)}
        self._texts = tuple(key for key, space in shown.items() if space.dtype == "str")
        state = tuple(key for key in shown if key not in self._images and key not in self._texts)
        _check_images(self._images)
        width = columns(spec, state)[state[-1]].stop if state else 0
        self._distribution = distribution_of(spec.action, chunk, WHERE)
        self._depth = len(hidden) + 1
        self._normalization = RunningNormalization(width)
        rng = np.random.default_rng(seed)
        super().__init__(
            where=WHERE,
            arrays={**self._encoders(width, rng), **self._heads(bool(state), hidden, rng, log_std)},
            state_keys=state,
            normalization=self._normalization if normalize and state else None,
        )

    def act(self, observations: Batch[Observation], *, deterministic: bool = False) -> Batch[ActionChunk]:
        """Plan a chunk for every row: `actions` [B, K, *shape], `log_probs` [B, K, A] float32.

        The noise of a row comes from its entry of ``observations.seeds`` and nothing else.
        """
        seeds = None if deterministic else observations.seeds
        if seeds is None and not deterministic:
            raise ValueError("act() draws its noise from observations.seeds, which are missing")
        rows, network = len(observations), self._network()
        shown = {key: np.asarray(observations.column(key)) for key in self.observation_keys}
        with torch.no_grad():
            outputs = [network.actor(network.features(block)).numpy() for block in _blocks(shown, rows)]
        actions, log_probs = self._distribution.sample(np.concatenate(outputs)[:rows], self._arrays, seeds)
        return Batch.stacked(ActionChunk, actions=actions, log_probs=log_probs)

    def _encoders(self, width: int, rng: np.random.Generator) -> dict[str, Array]:
        arrays: dict[str, Array] = {}
        for key, shape in self._images.items():
            arrays |= _image_encoder(key, shape, rng)
        for key in self._texts:
            arrays[f"text/{key}"] = rng.standard_normal((BUCKETS, TEXT_FEATURES)).astype(np.float32)
        return arrays | (dense("state", [width, STATE_FEATURES], 2**0.5, rng) if width else {})

    def _heads(
        self, has_state: bool, hidden: Sequence[int], rng: np.random.Generator, log_std: float
    ) -> dict[str, Array]:
        joint = IMAGE_FEATURES * len(self._images) + TEXT_FEATURES * len(self._texts) + STATE_FEATURES * has_state
        return {
            **dense("actor", [joint, *hidden, self._distribution.parameters], 0.01, rng),
            **dense("critic", [joint, *hidden, 1], 1.0, rng),
            **self._distribution.arrays(log_std),
        }

    def _build(self) -> TorchVision:
        return TorchVision(
            arrays=self._arrays,
            depth=self._depth,
            shift=self._normalization.shift,
            scale=self._normalization.scale,
            clip=CLIP,
            state=self._state_keys,
            images={key: _convolutions(shape) for key, shape in self._images.items()},
            texts=self._texts,
            distribution=self._distribution,
        )


def _keys(spec: SimulatorSpec, wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is None:
        return tuple(key for key, space in spec.observation.items() if _is_image(space) or len(space.shape) <= 1)
    for key in wanted:
        if key not in spec.observation:
            hint = did_you_mean(key, spec.observation)
            raise UsageError(f"the simulator shows no observation {key!r}", where=WHERE, hint=hint)
    return tuple(wanted)


def _is_image(space: Space) -> bool:
    return space.dtype == "uint8" and len(space.shape) == 3


def _check_images(images: Mapping[str, tuple[int, ...]]) -> None:
    if not images:
        raise UsageError(
            "there is no image to see",
            where=WHERE,
            hint="give the simulator cameras, or use ebrl.policy('mlp') on states alone",
        )
    for key, (height, width, _) in images.items():
        if min(height, width) < SMALLEST:
            raise UsageError(
                f"image {key!r} has {height} x {width} pixels; expected at least {SMALLEST} x {SMALLEST}",
                where=WHERE,
                hint="images are [height, width, channels]",
            )


def _convolutions(shape: tuple[int, ...]) -> int:
    """How many halvings bring an image down to the grid."""
    count, side = 0, max(shape[:2])
    while side > GRID:
        count, side = count + 1, -(-side // 2)
    return count


def _image_encoder(key: str, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Array]:
    """Convolutions [out, in, 3, 3] and a last layer [in, out], all orthogonal; zero biases."""
    arrays: dict[str, Array] = {}
    height, width, before = shape
    for layer in range(_convolutions(shape)):
        after = CHANNELS[min(layer, len(CHANNELS) - 1)]
        weight = orthogonal(after, before * 9, rng) * np.float32(2**0.5)
        arrays[f"image/{key}/{layer}/weight"] = weight.reshape(after, before, 3, 3)
        arrays[f"image/{key}/{layer}/bias"] = np.zeros(after, np.float32)
        height, width, before = -(-height // 2), -(-width // 2), after
    arrays[f"image/{key}/weight"] = orthogonal(height * width * before, IMAGE_FEATURES, rng)
    arrays[f"image/{key}/bias"] = np.zeros(IMAGE_FEATURES, np.float32)
    return arrays


def _blocks(shown: Mapping[str, Array], rows: int) -> Iterator[dict[str, Any]]:
    """`BLOCK` rows at a time; the last row fills the last block."""
    for start in range(0, rows, BLOCK):
        index = np.minimum(np.arange(start, start + BLOCK), rows - 1)
        yield {key: column[index] for key, column in shown.items()}
