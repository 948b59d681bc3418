"""Testbeds: what the devices, hosts and links of the paper's machines do. Every constant stands here once."""

from __future__ import annotations

import attrs
from figure import Figure, assumed, derived, published

_NVIDIA = "NVIDIA's data sheet, dense bfloat16"


@attrs.define(frozen=True, kw_only=True)
class Accelerator:
    """How fast models run on a device."""

    peak: Figure
    utilisation: Figure
    """Share of the peak that training and large batches reach."""

    @property
    def tflops(self) -> float:
        return self.peak.value * self.utilisation.value


ACCELERATORS = {
    "H100": Accelerator(
        peak=published(989, "TFLOP/s", f"{_NVIDIA}, H100 SXM"),
        utilisation=assumed(
            0.3, "", "short sequences through FSDP in eager mode; language models of billions reach 0.4"
        ),
    ),
    "A100": Accelerator(
        peak=published(312, "TFLOP/s", f"{_NVIDIA}, A100"),
        utilisation=assumed(
            0.4, "", "with 153 FLOP per byte of memory traffic kernels come nearer to the peak than with 295 (H100)"
        ),
    ),
    "H20": Accelerator(
        peak=published(148, "TFLOP/s", f"{_NVIDIA}, H20"),
        utilisation=assumed(0.6, "", "likewise, with 37 FLOP per byte"),
    ),
}

SM_EXPONENT = assumed(
    0.9,
    "",
    "with a share s of the SMs what is bound by them runs at s ** 0.9 of its speed: compute is divided, caches and "
    "memory bandwidth are not. What waits for kernel launches does not depend on the share at all",
)
CORES = derived(8, "per device", "56 cores simulate beside 8 devices (the paper's testbed), one drives each device")
SIMULATING = published(7, "per device", "EBRL paper: 56 cores for 64 environments beside 8 devices")
PER_NODE = assumed(8, "devices", "the usual H100, A100 and H20 server; more devices are more such nodes")
SWAP_GB_S = assumed(20, "GB/s", "PCIe 4 and 5 x16 move 32 and 64 GB/s at their best; many tensors, in part pageable")
SYNC_GB_S = assumed(
    20, "GB/s", "gathering shards and broadcasting tensor by tensor, NVLink or 200 Gbit/s between nodes"
)
SYNC_S = assumed(0.2, "s", "to let the replicas finish a call and load")
GENERATION_SIGMA = published(
    0.016, "", "2.6 ms of 164.5 ms: NVIDIA Isaac-GR00T, scripts/deployment/README.md, PyTorch eager on the H100"
)
TRAINING_SIGMA = assumed(0.03, "", "fixed batches, so about that of generation; more for data and collectives")
EPISODE = published(
    1,
    "horizon",
    "RLinf, env/*.yaml: no auto_reset, so all play it to its end and are reset together; only ManiSkill with PPO has "
    "auto_reset, and is taken to do so too",
)
EPISODE_SPREAD = published(0, "", "likewise")
