"""MPS: a daemon on the machine bounds the SMs and the memory of each process, as its environment says."""

from __future__ import annotations

import math
import os
from pathlib import Path

from ebrl.backends.protocols import RESTART, Device, Granularity, Share, Unavailable

PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_DEFAULT_PIPES = "/tmp/nvidia-mps"


class Mps:
    """Serves whole GPUs where a daemon runs, which an administrator starts and ends; this never does.

    A share is the most that a process takes, not SMs of its own: two of 50 % may meet on the same ones.
    """

    change = RESTART
    within_process = False
    enforced = True

    def available(self, device: Device | None) -> Unavailable | None:
        if device is None or device.mig or not device.uuid.startswith("GPU-"):
            return Unavailable("the device is no whole GPU")
        return _daemon(Path(os.environ.get(PIPES) or _DEFAULT_PIPES))

    def granularity(self, device: Device | None) -> Granularity:
        return Granularity(1, "percent")

    def round(self, percent: float, device: Device | None) -> float:
        return float(min(100, max(1, math.floor(percent + 0.5))))

    def environment(self, share: Share) -> dict[str, str]:
        found = {
            "CUDA_VISIBLE_DEVICES": share.device,
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{self.round(share.sm_percent, None):.0f}",
        }
        if share.memory_mib is not None:
            # By number of the device, as this process counts: it sees one.
            found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={share.memory_mib}MB"
        if pipes := os.environ.get(PIPES):
            found[PIPES] = pipes
        return found

    def apply(self, share: Share) -> None:
        """Nothing: CUDA reads the variables once, when the process first uses it."""


def _daemon(pipes: Path) -> Unavailable | None:
    start = "nvidia-cuda-mps-control -d"
    if not (pipes / "control").exists():
        return Unavailable(f"no MPS daemon listens in {pipes}", start)
    try:
        pid = int((pipes / "nvidia-cuda-mps-control.pid").read_text())
        if pid < 1:  # to `kill` that is a group
            raise ValueError
        os.kill(pid, 0)
    except PermissionError:
        return None  # another user's daemon
    except FileNotFoundError:
        return Unavailable(f"the MPS daemon left {pipes} without its process id", start)
    except (OSError, ValueError, OverflowError):
        return Unavailable(f"the MPS daemon of {pipes} has ended", start)
    return None
