"""Policies: what a call of each costs. Compute in TFLOP, so that devices divide it by what they reach.

Forward passes are reckoned as 2 FLOP per parameter and token. A call in eager mode has a part that waits for kernel
launches: the published latency of one observation without its preparation and compute.
"""

from __future__ import annotations

import attrs
from figure import Figure, assumed, derived, published

_GR00T = "NVIDIA Isaac-GR00T, scripts/deployment/README.md"
_LAYERS = "at GR00T's eager speed of 1.25 ms per backbone layer and 0.77 ms per layer and denoising step"


@attrs.define(frozen=True, kw_only=True)
class Policy:
    """Costs of one model."""

    spec: str
    latency: Figure
    """One observation in eager mode."""
    measured_on: str
    prepare: Figure
    """Of one observation, on the host."""
    act: Figure
    """Compute of one observation."""
    train: Figure
    """Compute of one chunk-step, over all passes of an iteration."""
    optimizer: Figure
    """Of one iteration: gradient exchange and optimiser steps."""
    weights: Figure
    activations: Figure
    """Memory of one more observation in a generation call."""
    trained: Figure
    """What training holds on a device between iterations: weights, master copy, optimiser."""
    peak: Figure
    """Memory of training."""


_PREPARE = published(0.007, "s", f"{_GR00T}: data processing; taken for all policies")
_VLM_FROZEN = "the vision-language model is frozen (train_expert_only in RLinf's configuration of pi05)"

GR00T = Policy(
    spec="gr00t()",
    latency=published(0.157, "s", f"{_GR00T}: 7 ms data processing, 50 ms backbone, 4 x 25 ms action head, H100"),
    measured_on="H100",
    prepare=_PREPARE,
    act=derived(1.3, "TFLOP", "0.4 B parameters x 512 patches, 1.3 B x 160 tokens, 4 steps of 1.1 B x 50 tokens"),
    train=derived(
        1.2, "TFLOP", "one epoch (RLinf): backbone forward, frozen as in NVIDIA's default, 3 x one step of the head"
    ),
    optimizer=assumed(1.2, "s", "24 steps (RLinf: batches of 1024) of 50 ms, for 1.1 B parameters"),
    weights=published(6.4, "GiB", "nvidia/GR00T-N1.7-3B: 6.91 GB"),
    activations=assumed(0.05, "GiB", "key-value cache and activations of 160 + 50 tokens"),
    trained=derived(16.3, "GiB", "12 bytes for each of 1.1 B trained parameters, 2 for each of 2.1 B frozen ones"),
    peak=published(35, "GiB", "NVIDIA Isaac-GR00T, getting_started/hardware_recommendation.md: under 35 GB"),
)
PI0 = Policy(
    spec="openpi(model=pi0)",
    latency=derived(0.133, "s", f"preparation, 45 backbone layers, 5 steps (RLinf) of 18 layers, {_LAYERS}"),
    measured_on="H100",
    prepare=_PREPARE,
    act=derived(
        4.0, "TFLOP", "0.4 B x 768 patches, 2 B x 816 tokens (openpi computes three image slots), 5 x 0.3 B x 51"
    ),
    train=derived(15.8, "TFLOP", f"4 epochs (RLinf) of the backbone forward and 3 x one denoising step; {_VLM_FROZEN}"),
    optimizer=assumed(1.5, "s", "30 steps (RLinf: 4 epochs of batches of 2048) of 50 ms"),
    weights=derived(6.2, "GiB", "3.3 B parameters, bfloat16"),
    activations=assumed(0.1, "GiB", "key-value cache and activations of 816 tokens"),
    trained=derived(8.9, "GiB", "12 bytes for each of 0.3 B trained parameters, 2 for each of 3 B frozen ones"),
    peak=assumed(40, "GiB", "micro-batches of 128 (RLinf) with activations of the expert kept"),
)
PI05 = attrs.evolve(
    PI0,
    spec="openpi(model=pi05)",
    latency=derived(0.174, "s", f"preparation, 45 backbone layers, 8 steps (RLinf) of 18 layers, {_LAYERS}"),
    act=derived(4.1, "TFLOP", "as pi0, with 8 denoising steps (RLinf's configuration for BEHAVIOR)"),
    train=derived(4.0, "TFLOP", f"as pi0, one epoch; {_VLM_FROZEN}"),
    optimizer=assumed(6.4, "s", "128 steps (RLinf: batches of 64) of 50 ms"),
)
OPENVLA_OFT = Policy(
    spec="openvla_oft()",
    latency=published(0.112, "s", "OpenVLA-OFT paper, arXiv 2502.19645: a chunk of 8 on the A100"),
    measured_on="A100",
    prepare=_PREPARE,
    act=derived(4.9, "TFLOP", "0.7 B parameters x 256 patches, 6.7 B x 342 tokens, all actions in one pass"),
    train=derived(
        14.7, "TFLOP", "3 x forward: LoRA needs no gradients of weights, checkpointing (RLinf) one pass more"
    ),
    optimizer=assumed(0.1, "s", "2 steps (RLinf: batches of 640) of 50 ms; only LoRA's gradients are exchanged"),
    weights=derived(14.0, "GiB", "7.5 B parameters, bfloat16"),
    activations=assumed(0.2, "GiB", "activations and logits of 342 tokens"),
    trained=derived(15.2, "GiB", "frozen weights, 12 bytes for each of 0.11 B LoRA parameters"),
    peak=assumed(40, "GiB", "frozen weights, and micro-batches of 40 (RLinf) with one checkpoint per layer"),
)
DREAMZERO = Policy(
    spec="dreamzero()",
    latency=derived(2.85, "s", "half of the 5.7 s of arXiv 2602.15922 without optimisation, taken for an H100: no "
                    "classifier-free guidance, as log-probabilities are of one pass; no caching, no distillation"),
    measured_on="H100",
    prepare=_PREPARE,
    act=derived(696, "TFLOP", "the latency less preparation and 16 steps of 40 layers of 0.77 ms, at the H100's speed"),
    train=derived(130, "TFLOP", "3 x one of 16 denoising steps"),
    optimizer=assumed(3.0, "s", "10 steps of 0.3 s: gathering and exchanging 14 B parameters"),
    weights=derived(26.1, "GiB", "14 B parameters (arXiv 2602.15922), bfloat16"),
    activations=assumed(0.5, "GiB", "key-value cache of video latents"),
    trained=derived(20.0, "GiB", "12 bytes for each of 14 B parameters, sharded over 8 devices, frozen encoders aside"),
    peak=assumed(42, "GiB", "shards, gathered layers and activations of micro-batches of 4 (RLinf)"),
)  # fmt: skip
