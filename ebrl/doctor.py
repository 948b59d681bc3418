"""What `ebrl doctor` says about a machine: facts in, lines and remedies out. `ebrl.examination` gathers the facts."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ebrl.backends.accelerators.choose import Choice
from ebrl.backends.protocols import IMPOSSIBLE, LIVE, RESTART
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool
from ebrl.resources.topology import core_ranges

UNKNOWN = "n/a"
_FEW_ENVIRONMENTS = 1000
"""In one process; open files bound them."""
_LITTLE_SHARED_MIB = 256
_CHANGE = {
    LIVE: "changes while it runs",
    RESTART: "a change restarts its process",
    IMPOSSIBLE: "only an administrator changes it",
}
_RENDERER = "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri"


@attrs.define(frozen=True, kw_only=True)
class Served:
    """One device and what divides it. None where a backend could not be asked."""

    device: Gpu | None
    """None is the CPU."""
    among_processes: Choice | None = None
    within_process: Choice | None = None


@attrs.define(frozen=True, kw_only=True)
class Machine:
    """Everything that the doctor looks at; None is unknown."""

    pool: ResourcePool
    allowed: frozenset[int]
    """Core ids of the affinity mask."""
    cores: int | None = None
    """Of the machine."""
    free_mib: int | None = None
    served: tuple[Served, ...] = ()
    hidden_gpus: int = 0
    """That exist, but not for this process."""
    visible_devices: str | None = None
    """``CUDA_VISIBLE_DEVICES``"""
    driver: bool = False
    """An NVIDIA driver is loaded."""
    torch: str | None = None
    """Its version."""
    open_files: tuple[int, int] | None = None
    """Soft and hard limit; -1 is none."""
    environments: int | None = None
    """That the hard limit allows one process; None without a limit."""
    shared_mib: tuple[int, int] | None = None
    """Size and free space of ``/dev/shm``."""
    egl: bool = False
    egl_drivers: bool = False
    osmesa: bool = False


@attrs.define(frozen=True)
class Line:
    """One fact."""

    topic: str
    text: str
    concern: bool = False


@attrs.define(frozen=True)
class Remedy:
    """Something to mend, and how."""

    problem: str
    way: str
    command: bool = True
    """`way` can be typed as it is; else it is advice."""


def lines(machine: Machine) -> Iterator[Line]:
    """The facts, in the order in which they are read."""
    pool, topology = machine.pool, machine.pool.topology
    yield Line(
        "cores", f"{core_ranges(machine.allowed)}: {len(machine.allowed)} of {_number(machine.cores)} may be used"
    )
    physical = topology.physical(machine.allowed)
    yield Line("physical cores", UNKNOWN if physical is None else f"{physical}{_threads(machine, physical)}")
    yield Line("NUMA nodes", "; ".join(_nodes(machine)) or UNKNOWN)
    yield Line("cgroup quota", _quota(pool), _wasted(pool) > 0)
    yield Line("memory", f"{_mib(pool.memory_mib)}, {_mib(machine.free_mib)} available")
    yield Line("pinning", "possible" if pool.pinning else "impossible: cores are advisory", not pool.pinning)
    if not pool.gpus:
        yield Line("GPUs", "none" + (f", {machine.hidden_gpus} hidden" if machine.hidden_gpus else ""), machine.driver)
    for served in machine.served:
        yield from _device(served)
    yield Line("open files", _open_files(machine), _few_environments(machine))
    shared = machine.shared_mib
    yield Line(
        "shared memory", UNKNOWN if shared is None else f"{_mib(shared[0])}, {_mib(shared[1])} free", _cramped(machine)
    )
    yield Line("rendering", _rendering(machine), not _renders(machine))
    yield Line("browser", "not needed: the dashboard opens in your own")


def remedies(machine: Machine) -> Iterator[Remedy]:
    """What is worth mending, most important first."""
    yield from _gpu_remedies(machine)
    if _wasted(machine.pool) > 0:
        quota = machine.pool.cpu_quota or 0.0
        yield Remedy(
            f"the cgroup quota of {quota:g} cores pays for {len(machine.pool.cores)}, the rest is lost",
            f"give it a whole number, such as docker run --cpus={int(quota) + 1}",
            command=False,
        )
    if not machine.pool.pinning:
        yield Remedy(
            "processes cannot be bound to cores, so simulators move between them",
            "let the sandbox that runs this allow the system call sched_setaffinity",
            command=False,
        )
    if _few_environments(machine):
        yield Remedy(
            f"open files allow {machine.environments} environments in one process",
            "raise the hard limit: docker run --ulimit nofile=65536, or LimitNOFILE= of the service",
            command=False,
        )
    if _cramped(machine):
        yield Remedy(
            f"/dev/shm has {_mib((machine.shared_mib or (0, 0))[1])} free, and observations travel through it",
            "give it more, such as docker run --shm-size=2g, or: mount -o remount,size=2G /dev/shm",
            command=False,
        )
    if not _renders(machine):
        yield Remedy("nothing can render: simulators that show images need EGL or OSMesa", _RENDERER)


def _gpu_remedies(machine: Machine) -> Iterator[Remedy]:
    gpus = machine.pool.gpus
    if machine.hidden_gpus and not gpus:
        yield Remedy(f"CUDA_VISIBLE_DEVICES={machine.visible_devices!r} hides every GPU", "unset CUDA_VISIBLE_DEVICES")
    elif machine.driver and not gpus:
        yield Remedy("an NVIDIA driver is loaded, and NVML shows no GPU", "nvidia-smi")
    if gpus and machine.torch is not None and machine.torch.endswith("+cpu"):
        way = "install a build with CUDA: https://pytorch.org/get-started/locally"
        yield Remedy(f"torch {machine.torch} cannot use a GPU", way, command=False)
    undivided = [served for served in machine.served if served.device is not None and not _enforced(served)]
    if undivided:
        names = ", ".join(_name(served.device) for served in undivided)
        choice = undivided[0].among_processes
        mps = choice.others.get("mps") if choice is not None else None
        why = f" ({mps.reason})" if mps is not None else ""
        yield Remedy(
            f"nothing keeps stages to their share of {names}{why}",
            mps.hint if mps is not None and mps.hint else "one stage for each GPU needs no share",
            command=mps is not None and bool(mps.hint),
        )


def _enforced(served: Served) -> bool:
    return served.among_processes is not None and served.among_processes.enforced


def _device(served: Served) -> Iterator[Line]:
    gpu = served.device
    if gpu is not None:
        kind = f"MIG instance of {gpu.parent or UNKNOWN}" if gpu.mig else "whole"
        yield Line(_name(gpu), f"{gpu.name or UNKNOWN}, {_number(gpu.sm_count)} SMs, {_mib(gpu.memory_mib)}, {kind}")
        yield Line("", gpu.uuid)
    yield Line("CPU shares" if gpu is None else "  shares", _shares(served.among_processes, gpu), not _enforced(served))
    inside = served.within_process
    if inside is not None and inside.accelerator is not None and inside.accelerator.within_process:
        yield Line("  in one process", _shares(inside, gpu))


def _shares(choice: Choice | None, gpu: Gpu | None) -> str:
    if choice is None:
        return f"{UNKNOWN}: a backend failed"
    accelerator = choice.accelerator
    if accelerator is None:
        return "advisory: nothing divides it"
    size, unit = accelerator.granularity(gpu)
    if (size, unit) == (100, "percent"):
        step = "as a whole"
    else:
        name = "%" if unit == "percent" else unit if size != 1 else unit.removesuffix("s")
        part = f" ({100 * size / gpu.sm_count:.1f} %)" if unit == "SMs" and gpu is not None and gpu.sm_count else ""
        step = f"in steps of {size:g} {name}{part}"
    kept = "enforced" if accelerator.enforced else "advisory"
    return f"{kept} by {choice.name}, {step}; {_CHANGE[accelerator.change]}"


def _name(gpu: Gpu | None) -> str:
    return f"GPU {UNKNOWN if gpu is None or gpu.index is None else gpu.index}"


def _threads(machine: Machine, physical: int) -> str:
    doubled = len(machine.allowed) - physical
    return f"; {doubled} of the cores are second threads (SMT)" if doubled else ", one thread each"


def _nodes(machine: Machine) -> Iterator[str]:
    for number, members in machine.pool.topology.nodes:
        if mine := machine.allowed.intersection(members):
            yield f"{number}: {core_ranges(mine)}"


def _quota(pool: ResourcePool) -> str:
    if pool.cpu_quota is None:
        return "none"
    return f"{pool.cpu_quota:g} cores: plans use {core_ranges(pool.cores)}"


def _wasted(pool: ResourcePool) -> float:
    """Cores of CPU time that the quota pays for and no plan uses."""
    if pool.cpu_quota is None or pool.cpu_quota > len(pool.cores) + 1:
        return 0.0
    return max(0.0, pool.cpu_quota - len(pool.cores))


def _open_files(machine: Machine) -> str:
    if machine.open_files is None:
        return UNKNOWN
    soft, hard = ("unlimited" if limit < 0 else f"{limit:,}" for limit in machine.open_files)
    room = "any number of" if machine.environments is None else f"{machine.environments:,}"
    return f"{soft} now, {hard} at most: {room} environments in one process"


def _few_environments(machine: Machine) -> bool:
    return machine.environments is not None and machine.environments < _FEW_ENVIRONMENTS


def _cramped(machine: Machine) -> bool:
    return machine.shared_mib is not None and machine.shared_mib[1] < _LITTLE_SHARED_MIB


def _renders(machine: Machine) -> bool:
    return machine.osmesa or (machine.egl and machine.egl_drivers)


def _rendering(machine: Machine) -> str:
    egl = "EGL" if machine.egl and machine.egl_drivers else "EGL without a driver" if machine.egl else "no EGL"
    return f"{egl}, {'OSMesa' if machine.osmesa else 'no OSMesa'}"


def _mib(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size:,} MiB"


def _number(count: int | None) -> str:
    return UNKNOWN if count is None else str(count)
