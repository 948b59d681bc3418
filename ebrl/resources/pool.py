"""What this process may really use: cores, memory and GPUs, as the machine, the cgroup and the environment allow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import psutil

from ebrl.resources import narrowing
from ebrl.resources.affinity import allowed, supported
from ebrl.resources.cgroup import Limits, read_limits
from ebrl.resources.gpus import Gpu, visible_gpus
from ebrl.resources.topology import Topology, read_topology


@attrs.define(frozen=True, kw_only=True)
class ResourcePool:
    """The resources of one machine that a plan may hand out."""

    cores: tuple[int, ...]
    """Core ids of the affinity mask, ascending; as many as the cgroup quota pays for, at least one, and of these
    first one thread of each physical core."""
    cpu_quota: float | None = None
    """CPU time per wall time that the cgroup allows; None without a limit."""
    memory_mib: int | None = None
    """The smaller of physical memory and the cgroup's limit."""
    gpus: tuple[Gpu, ...] = ()
    """GPUs and MIG instances that ``CUDA_VISIBLE_DEVICES`` leaves, in its order."""
    pinning: bool = True
    """Whether processes can be bound to cores."""
    topology: Topology = Topology()
    """Physical cores and NUMA nodes of the whole machine, as far as they are known."""

    @classmethod
    def discover(
        cls,
        root: str | Path = "/sys/fs/cgroup",
        *,
        cores: str | Iterable[int] | None = None,
        gpus: str | Iterable[int | str] | None = None,
        memory: str | int | None = None,
        membership: str | Path = "/proc/self/cgroup",
        affinity: frozenset[int] | None = None,
        physical_mib: int | None = None,
        environ: Mapping[str, str] = os.environ,
        nvml: Any = None,
        system: str | Path = "/sys/devices/system",
    ) -> ResourcePool:
        """Read the machine, and take all of it or what is named.

        cores: core ids, as ``"0-7,16-23"`` or as numbers.
        gpus: NVML indices and beginnings of UUIDs, in the order in which they are to be used; empty for none.
        memory: as ``"64GiB"``, or a number of MiB.

        The other arguments replace what is read, for tests: the cgroup file system, the file that names this
        process's groups, the affinity mask, physical memory, the environment, the NVML module and the folder
        of the topology.

        Raises PlanError for what this process may not use or does not exist, UsageError for what cannot be read.
        """
        limits, topology = read_limits(Path(root), Path(membership)), read_topology(Path(system))
        mask = allowed() if affinity is None else affinity
        wanted = narrowing.cores(cores, mask)
        total = psutil.virtual_memory().total // 2**20 if physical_mib is None else physical_mib
        most = total if limits.memory_mib is None else min(total, limits.memory_mib)
        visible = visible_gpus(environ.get("CUDA_VISIBLE_DEVICES"), nvml)
        return cls(
            cores=tuple(sorted(topology.spread(wanted)[: _affordable(limits, len(wanted))])),
            cpu_quota=limits.cpus,
            memory_mib=narrowing.memory_mib(memory, most),
            gpus=narrowing.gpus(gpus, visible),
            pinning=supported(),
            topology=topology,
        )


def _affordable(limits: Limits, cores: int) -> int:
    return cores if limits.cpus is None else max(1, min(cores, int(limits.cpus)))
