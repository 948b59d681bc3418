"""What this process may really use: cores, memory and GPUs, as the machine, the cgroup and the environment allow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import psutil

from ebrl.resources.affinity import supported
from ebrl.resources.cgroup import Limits, read_limits
from ebrl.resources.gpus import Gpu, visible_gpus


@attrs.define(frozen=True, kw_only=True)
class ResourcePool:
    """The resources of one machine that a plan may hand out."""

    cores: tuple[int, ...]
    """Core ids of the affinity mask, as many as the cgroup quota pays for, at least one."""
    cpu_quota: float | None = None
    """CPU time per wall time that the cgroup allows; None without a limit."""
    memory_mib: int | None = None
    """The smaller of physical memory and the cgroup's limit."""
    gpus: tuple[Gpu, ...] = ()
    """GPUs and MIG instances that ``CUDA_VISIBLE_DEVICES`` leaves, in its order."""
    pinning: bool = True
    """Whether processes can be bound to cores."""

    @classmethod
    def discover(
        cls,
        root: str | Path = "/sys/fs/cgroup",
        *,
        membership: str | Path = "/proc/self/cgroup",
        affinity: frozenset[int] | None = None,
        physical_mib: int | None = None,
        environ: Mapping[str, str] = os.environ,
        nvml: Any = None,
    ) -> ResourcePool:
        """Read the machine. Arguments replace what is read, for tests: the cgroup file system, the file that
        names this process's groups, the affinity mask, physical memory, the environment and the NVML module."""
        limits = read_limits(Path(root), Path(membership))
        mask = sorted(_affinity() if affinity is None else affinity)
        total = psutil.virtual_memory().total // 2**20 if physical_mib is None else physical_mib
        return cls(
            cores=tuple(mask[: _affordable(limits, len(mask))]),
            cpu_quota=limits.cpus,
            memory_mib=total if limits.memory_mib is None else min(total, limits.memory_mib),
            gpus=visible_gpus(environ.get("CUDA_VISIBLE_DEVICES"), nvml),
            pinning=supported(),
        )


def _affordable(limits: Limits, cores: int) -> int:
    return cores if limits.cpus is None else max(1, min(cores, int(limits.cpus)))


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))
