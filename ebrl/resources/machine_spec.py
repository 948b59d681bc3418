"""A machine that is not here, as a user writes it: ``8xH100,56c,512GiB``. Text in, resources out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

import attrs

from ebrl.errors import UsageError, did_you_mean
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool

WAY = "write cores, and GPUs and memory where it matters: 64c, or 8xH100,56c,512GiB"

# SMs: NVIDIA's architecture whitepapers (Ampere A100 SXM, Hopper H100 and H200 SXM, Ada); of the H20 what CUDA
# reports. Memory: what nvidia-smi shows of the 80 GB A100, the H100 SXM and so on; it is a little less than on the box.
KNOWN = {
    "A100": Gpu(uuid="", name="NVIDIA A100-SXM4-80GB", memory_mib=81920, compute_capability=(8, 0), sm_count=108),
    "H100": Gpu(uuid="", name="NVIDIA H100 80GB HBM3", memory_mib=81559, compute_capability=(9, 0), sm_count=132),
    "H200": Gpu(uuid="", name="NVIDIA H200", memory_mib=143771, compute_capability=(9, 0), sm_count=132),
    "H20": Gpu(uuid="", name="NVIDIA H20", memory_mib=97871, compute_capability=(9, 0), sm_count=78),
    "L40S": Gpu(uuid="", name="NVIDIA L40S", memory_mib=46068, compute_capability=(8, 9), sm_count=142),
    "RTX4090": Gpu(uuid="", name="NVIDIA GeForce RTX 4090", memory_mib=24564, compute_capability=(8, 9), sm_count=128),
}


def machine_or_this(spec: str | None) -> ResourcePool:
    """The machine that `spec` names, as `machine` says; this one without."""
    return ResourcePool.discover() if spec is None else machine(spec)


def machine(spec: str) -> ResourcePool:
    """The resources that `spec` names; UsageError, which names the wrong part, for what it cannot be.

    spec: parts with commas between them: ``56c`` cores, ``8xH100`` GPUs, ``512GiB`` memory; a number alone is cores.
    """
    cores, memory_mib, gpus = 0, None, list[Gpu]()
    for part in (entry.strip() for entry in spec.split(",")):
        if number := _number(r"(\d{1,5})c?", part):
            if cores:
                _refuse(spec, f"{part!r} names cores a second time")
            cores = number
        elif number := _number(r"(\d{1,6})GiB", part):
            if memory_mib is not None:
                _refuse(spec, f"{part!r} names memory a second time")
            memory_mib = 1024 * number
        elif match := re.fullmatch(r"(\d{1,4})x(\w[\w-]*)", part, flags=re.ASCII | re.IGNORECASE):
            gpus += _gpus(spec, part, int(match[1]), match[2], len(gpus))
        elif "*" in part:
            _refuse(spec, f"{part!r} is several machines, and a plan is shown for one", "name the one that trains")
        else:
            _refuse(spec, f"{part!r} is neither cores nor GPUs nor memory")
    if not cores:
        _refuse(spec, "it names no cores")
    return ResourcePool(cores=tuple(range(cores)), gpus=tuple(gpus), memory_mib=memory_mib)


def _number(pattern: str, part: str) -> int:
    """The number in `part`; 0 where it does not look like `pattern`, or is none."""
    match = re.fullmatch(pattern, part, flags=re.ASCII | re.IGNORECASE)
    return int(match[1]) if match else 0


def _gpus(spec: str, part: str, count: int, name: str, before: int) -> Iterator[Gpu]:
    known = {entry.upper(): gpu for entry, gpu in KNOWN.items()}.get(name.upper())
    if known is None:
        _refuse(spec, f"{part!r} names no known GPU", did_you_mean(name, KNOWN))
    if not count:
        _refuse(spec, f"{part!r} names no GPU")
    for number in range(before, before + count):
        yield attrs.evolve(known, uuid=f"GPU-{number}", index=number)


def _refuse(spec: str, why: str, hint: str = WAY) -> NoReturn:
    raise UsageError(f"--machine {spec}: {why}", hint=hint)
