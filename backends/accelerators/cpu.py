"""Shares of the CPU: an affinity mask and thread pools of the right size. Both change while a process runs."""

from __future__ import annotations

import math
import os
import sys

from ebrl.backends.protocols import LIVE, Device, Granularity, Share, Unavailable
from ebrl.resources import affinity
from ebrl.runtime.order import THREAD_POOLS


class Cpu:
    """Serves processes that use no device."""

    change = LIVE
    within_process = False

    @property
    def enforced(self) -> bool:
        return affinity.supported()

    def available(self, device: Device | None) -> Unavailable | None:
        return None if device is None else Unavailable("it serves processes without a device")

    def granularity(self, device: Device | None) -> Granularity:
        return Granularity(1, "cores")

    def round(self, percent: float, device: Device | None) -> float:
        """Of the cores of the machine, whole ones."""
        cores = os.cpu_count() or 1
        return min(100.0, max(1, math.floor(percent * cores / 100 + 0.5)) * 100 / cores)

    def environment(self, share: Share) -> dict[str, str]:
        threads = share.threads or len(share.cores)
        return dict.fromkeys(THREAD_POOLS, str(threads)) if threads else {}

    def apply(self, share: Share) -> None:
        """Bind this process to the cores, and size torch's pool where torch is loaded. Other pools keep the size
        that `environment` gave them."""
        if share.cores:
            affinity.bind(os.getpid(), share.cores)
        threads = share.threads or len(share.cores)
        if threads and (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(threads)
