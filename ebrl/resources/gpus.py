"""GPUs and MIG instances through NVML, as ``CUDA_VISIBLE_DEVICES`` leaves them. Every field is optional."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
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
        found = _named(devices, entry.strip())
        if not found or any(gpu in chosen for gpu in found):
            break
        chosen += found
    return tuple(chosen)


def _named(devices: list[Gpu], entry: str) -> list[Gpu]:
    if entry.isdigit():
        return [gpu for gpu in devices if gpu.index == int(entry)]
    found = [gpu for gpu in devices if entry and gpu.uuid.lower().startswith(entry.lower())]
    return found if len(found) == 1 else []


def _devices(nvml: Any) -> list[Gpu]:
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return []
    if _try(nvml.nvmlInit, default=False) is False:
        return []
    try:
        count = _try(nvml.nvmlDeviceGetCount, default=0)
        return [gpu for index in range(count or 0) for gpu in _device(nvml, index)]
    finally:
        _try(nvml.nvmlShutdown)


def _device(nvml: Any, index: int) -> Iterator[Gpu]:
    handle = _try(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return
    instances = list(_instances(nvml, handle))
    for device in instances or [handle]:
        if uuid := _text(_try(nvml.nvmlDeviceGetUUID, device)):
            memory = _try(nvml.nvmlDeviceGetMemoryInfo, device)
            total = getattr(memory, "total", None)
            yield Gpu(
                uuid=uuid,
                index=index,
                name=_text(_try(nvml.nvmlDeviceGetName, device)),
                memory_mib=None if total is None else int(total) // 2**20,
                mig=bool(instances),
            )


def _instances(nvml: Any, handle: Any) -> Iterator[Any]:
    """MIG instances of a GPU; none where it is not partitioned."""
    mode = _try(nvml.nvmlDeviceGetMigMode, handle)
    if not mode or not mode[0]:
        return
    for number in range(_try(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        instance = _try(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if instance is not None:
            yield instance


def _try(call: Callable[..., Any], *arguments: Any, default: Any = None) -> Any:
    # Any field may be unsupported on a device or missing from a driver, each with its own exception.
    try:
        return call(*arguments)
    except Exception:
        return default


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
