"""Green contexts: a stage of a process sees some SMs of a device, and how many changes between two kernels.

As torch makes them, each takes the first SMs of the device: they bound a stage, and two of them overlap.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ebrl.backends.protocols import LIVE, Device, Granularity, Share, Unavailable

_SMALLEST = {6: (1, 1), 7: (2, 2), 8: (4, 2)}
"""(least SMs, step) by major compute capability, from CUDA's documentation; 9.0 and later: 8 and 8."""
_NEEDS = (2, 10)


class GreenContexts:
    """Serves stages that share one process, each from its own thread. Memory is not bounded.

    The worker must see one device alone, or the share's device first.
    """

    change = LIVE
    within_process = True
    enforced = True

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def available(self, device: Device | None) -> Unavailable | None:
        if device is None or not device.uuid.startswith(("GPU-", "MIG-")):
            return Unavailable("the device is no GPU")
        if device.sm_count is None:
            return Unavailable("the number of SMs of the device is unknown")
        return _torch_lacks()

    def granularity(self, device: Device | None) -> Granularity:
        return Granularity(_least_and_step(device)[1], "SMs")

    def round(self, percent: float, device: Device | None) -> float:
        if device is None or device.sm_count is None:
            return percent
        return min(100.0, _sms(percent, device.sm_count, *_least_and_step(device)) * 100 / device.sm_count)

    def environment(self, share: Share) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": share.device}

    def apply(self, share: Share) -> None:
        """Bound the kernels that this thread launches from now on; with a share of the whole device, no longer.
        Needs torch with CUDA."""
        if (former := getattr(self._of_thread, "context", None)) is not None:
            former.pop_context()
            self._of_thread.context = None
        torch: Any = importlib.import_module("torch")
        contexts: Any = importlib.import_module("torch.cuda.green_contexts")
        found = torch.cuda.get_device_properties(0)
        sms = _sms(share.sm_percent, found.multi_processor_count, *_SMALLEST.get(found.major, (8, 8)))
        if sms == found.multi_processor_count:
            return
        context = contexts.GreenContext.create(num_sms=sms, device_id=0)
        context.set_context()
        self._of_thread.context = context


def _sms(percent: float, total: int, least: int, step: int) -> int:
    """The nearest number of SMs that a context can have, or all of the device, which may end with a part of a step."""
    exact = percent * total / 100
    stepped = max(least, math.floor(exact / step + 0.5) * step)
    return total if total - exact < abs(stepped - exact) else min(total, stepped)


def _least_and_step(device: Device | None) -> tuple[int, int]:
    capability = None if device is None else device.compute_capability
    return (8, 8) if capability is None else _SMALLEST.get(capability[0], (8, 8))


def _torch_lacks() -> Unavailable | None:
    """Judged by the installed version: importing torch takes seconds."""
    try:
        installed = version("torch")
    except PackageNotFoundError:
        return Unavailable("torch is not installed", "pip install 'torch>=2.10'")
    found = re.match(r"(\d+)\.(\d+)", installed)
    if found is None or (int(found[1]), int(found[2])) < _NEEDS:
        return Unavailable(f"torch {installed} knows no green contexts", "pip install 'torch>=2.10'")
    loaded = sys.modules.get("torch.cuda.green_contexts")
    if installed.endswith("+cpu") or not getattr(loaded, "SUPPORTED", True):
        return Unavailable(f"torch {installed} is built without green contexts", "install a CUDA build of torch")
    return None
