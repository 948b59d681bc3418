"""Simulators: what one control step of one environment costs, on a core and on a device.

What was measured here ran on 2 cores without GPU, often under load, and rendered in software.
"""

from __future__ import annotations

import attrs
from figure import Figure, assumed, derived, published

_EBRL = "EBRL paper, arXiv 2609.27547"
_RT = "its own: Isaac Sim renders by ray tracing"


@attrs.define(frozen=True, kw_only=True)
class Simulator:
    """Costs of one kind of environment."""

    uri: str
    step: Figure
    """Mean CPU time of a control step, with rendering where that needs no share of a device worth the name."""
    tail: Figure
    """P99 of a step over its mean. Steps of a chunk are taken to vary independently."""
    reset: Figure
    launch: Figure = assumed(0.0, "s", "no part on devices")
    """Device time of a step whatever the share of SMs."""
    render: Figure = assumed(0.0, "s", "EGL renders two small images in 1 to 3 ms beside all else; within the step")
    """Device time of a step that is bound by the SMs."""
    memory: Figure = assumed(0.0, "GiB", "a few hundred MiB of EGL contexts are left out")
    models: tuple[str, ...] = ()
    """Devices that it runs on."""
    rt_cores: bool = False


LIBERO = Simulator(
    uri="libero:libero_10",
    step=published(0.040, "s", f"{_EBRL}: mean step time"),
    tail=published(1.5, "", f"{_EBRL}: P99 60 ms, mean 40 ms"),
    reset=derived(0.7, "s", "hard resets of 0.6 to 0.8 s measured here without rendering; EGL adds little"),
)
ROBOCASA = Simulator(
    uri="robocasa",
    step=derived(0.050, "s", "25 to 47 ms measured here without images, and two EGL images of 256 pixels of 5 ms each"),
    tail=derived(1.6, "", "892 over 536 ms (P99 over median) measured here with images"),
    reset=derived(4.0, "s", "2 to 6 s measured here"),
)
MANISKILL = Simulator(
    uri="maniskill:PutOnPlateInScene25Main-v3",
    step=assumed(0.0006, "s", "the control loop of a device, 20 ms in Python, over its 32 environments"),
    tail=assumed(1.5, "", "as LIBERO: contacts vary as much, lock-step evens out"),
    reset=assumed(0.1, "s", "partial resets of batched scenes; 50 to 150 ms measured here"),
    launch=assumed(0.00235, "s", "100 physics steps (RLinf: 500 Hz physics, 5 Hz control) of 1.5 ms, as batched PhysX "
                   "takes for tens of scenes, over 32 environments (RLinf: 128 on 4 devices); half waits for launches"),
    render=assumed(0.00295, "s", "the other half, and 0.6 ms for an image of 640 x 480 with segmentation"),
    memory=assumed(8, "GiB", "PhysX buffers and 32 scenes"),
    models=("H100", "A100", "H20"),
)  # fmt: skip
BEHAVIOR = Simulator(
    uri="behavior:turning_on_radio",
    step=assumed(0.0288, "s", "0.7 of the 41.2 ms that RLinf's blog of 2026-05-21 reports after its optimisation: "
                 "physics and object states run on the CPU in its configuration"),
    tail=assumed(1.5, "", "as LIBERO: contacts vary as much, and so do object states"),
    reset=assumed(5.0, "s", "a scene is restored in place, not loaded again; RoboCasa takes 2 to 6 s"),
    render=assumed(0.0124, "s", f"the other 0.3: three ray-traced cameras, {_RT}"),
    memory=assumed(12, "GiB", "four environments (RLinf: 8 on 2 devices) of two rooms each"),
    models=("RTX4090",),
    rt_cores=True,
)  # fmt: skip
