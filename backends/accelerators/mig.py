"""MIG: the driver gave every instance SMs and memory of its own, and only an administrator changes that."""

from __future__ import annotations

from ebrl.backends.protocols import IMPOSSIBLE, Device, Granularity, Share, Unavailable


class Mig:
    """Serves instances of a partitioned GPU, each as a whole. Never changes how a GPU is partitioned."""

    change = IMPOSSIBLE
    within_process = False
    enforced = True

    def available(self, device: Device | None) -> Unavailable | None:
        return None if device is not None and device.mig else Unavailable("the device is no MIG instance")

    def granularity(self, device: Device | None) -> Granularity:
        return Granularity(100, "percent")

    def round(self, percent: float, device: Device | None) -> float:
        return 100.0

    def environment(self, share: Share) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": share.device}

    def apply(self, share: Share) -> None:
        """Nothing: the instance is as large as it is."""
