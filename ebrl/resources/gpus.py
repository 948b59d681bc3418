"""GPUs and MIG instances through NVML, as ``CUDA_VISIBLE_DEVICES`` leaves them. Every field is optional."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import attrs


@attrs.define(frozen=True, kw_only=True)
class Gpu:
    """One device that a process can be given."""

    uuid: str
    """``GPU-...`` or ``MIG-...``, as ``CUDA_VISIBLE_DEVICES`` takes it."""
    index: int | None = None
    """NVML index of the physical GPU."""
    name: str | None = None
    memory_mib: int | None = None
    mig: bool = False
    """An instance of a partitioned GPU."""
    parent: str | None = None
    """UUID of the partitioned GPU."""
    compute_capability: tuple[int, int] | None = None
    """(9, 0) is what compilers call sm_90."""
    sm_count: int | None = None
    """Streaming multiprocessors, of which shares of a device are made."""


_CORES_PER_SM = {
    (5, 0): 128, (5, 2): 128, (5, 3): 128,
    (6, 0): 64, (6, 1): 128, (6, 2): 128,
    (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128, (10, 1): 128, (10, 3): 128, (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip
"""Single-precision cores of one SM by compute capability; NVML counts cores, not SMs, of a whole GPU."""


def visible_gpus(visible: str | None, nvml: Any = None) -> tuple[Gpu, ...]:
    """The devices that `visible`, a value of ``CUDA_VISIBLE_DEVICES``, leaves; all of them where it is None.

    Entries are indices, UUIDs or unique beginnings of UUIDs. As in CUDA, an entry that names no device
    hides all that follow. `nvml` replaces the module ``pynvml``.
    """
    if visible is not None and visible.strip() in ("", "-1"):
        return ()
    devices = _devices(nvml)
    if visible is None:
        return tuple(devices)
    chosen: list[Gpu] = []
    for entry in visible.split(","):
        found = gpus_named(devices, entry.strip())
        ambiguous = len(found) > 1 and not entry.strip().isdecimal()
        if not found or ambiguous or any(gpu in chosen for gpu in found):
            break
        chosen += found
    return tuple(chosen)


def gpus_named(devices: Iterable[Gpu], entry: str) -> list[Gpu]:
    """All devices that an index or the beginning of a UUID names; an index, all instances of a partitioned GPU."""
    if entry.isdecimal():
        return [gpu for gpu in devices if gpu.index == int(entry)]
    return [gpu for gpu in devices if entry and gpu.uuid.lower().startswith(entry.lower())]


def _devices(nvml: Any) -> list[Gpu]:
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return []
    try:
        nvml.nvmlInit()
    except Exception:  # no driver, or none that this module understands
        return []
    try:
        count = _count(_call(nvml, "nvmlDeviceGetCount")) or 0
        return [gpu for index in range(count) for gpu in _device(nvml, index)]
    finally:
        _call(nvml, "nvmlShutdown")


def _device(nvml: Any, index: int) -> Iterator[Gpu]:
    handle = _call(nvml, "nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return
    instances = list(_instances(nvml, handle))
    parent = _text(_call(nvml, "nvmlDeviceGetUUID", handle))
    capability = _pair(_call(nvml, "nvmlDeviceGetCudaComputeCapability", handle))
    for device in instances or [handle]:
        if uuid := _text(_call(nvml, "nvmlDeviceGetUUID", device)):
            total = _count(getattr(_call(nvml, "nvmlDeviceGetMemoryInfo", device), "total", None))
            yield Gpu(
                uuid=uuid,
                index=index,
                name=_text(_call(nvml, "nvmlDeviceGetName", device)),
                memory_mib=None if total is None else total // 2**20,
                mig=bool(instances),
                parent=parent if instances else None,
                compute_capability=capability,
                sm_count=_sms_of_instance(nvml, device) if instances else _sms(nvml, device, capability),
            )


def _sms(nvml: Any, handle: Any, capability: tuple[int, int] | None) -> int | None:
    cores = _count(_call(nvml, "nvmlDeviceGetNumGpuCores", handle))
    each = None if capability is None else _CORES_PER_SM.get(capability)
    return None if cores is None or each is None or cores % each else cores // each


def _sms_of_instance(nvml: Any, device: Any) -> int | None:
    found = _call(nvml, "nvmlDeviceGetAttributes_v2", device) or _call(nvml, "nvmlDeviceGetAttributes", device)
    return _count(getattr(found, "multiprocessorCount", None))


def _instances(nvml: Any, handle: Any) -> Iterator[Any]:
    """MIG instances of a GPU; none where it is not partitioned."""
    mode = _call(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or not mode[0]:
        return
    for number in range(_count(_call(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle)) or 0):
        instance = _call(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if instance is not None:
            yield instance


def _call(nvml: Any, name: str, *arguments: Any) -> Any:
    """What one NVML function returns, None where it fails.

    Any field may be unsupported on a device, or missing from a driver or from the module, each with its own exception.
    """
    try:
        return getattr(nvml, name)(*arguments)
    except Exception:
        return None


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _count(value: Any) -> int | None:
    """A number that means something: drivers also report 0 where they do not know."""
    return value if isinstance(value, int) and value > 0 else None


def _pair(value: Any) -> tuple[int, int] | None:
    try:
        major, minor = value
        return int(major), int(minor)
    except (TypeError, ValueError):
        return None
