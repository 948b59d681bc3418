"""Look at this machine for `ebrl doctor`. Raises nothing: what cannot be looked at is unknown."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import psutil

from ebrl.backends.accelerators.choose import Choice, choose
from ebrl.doctor import Machine, Served
from ebrl.resources import affinity, open_files
from ebrl.resources.gpus import Gpu, visible_gpus
from ebrl.resources.pool import ResourcePool

_EGL_DRIVERS = ("/usr/share/glvnd/egl_vendor.d", "/etc/glvnd/egl_vendor.d", "/usr/local/share/glvnd/egl_vendor.d")
_EGL, _OSMESA = ("libEGL.so.1",), ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")
_SHARED = "/dev/shm"

T = TypeVar("T")


def examine() -> Machine:
    """Everything that the doctor asks for; takes well under a second and starts nothing."""
    pool = ResourcePool.discover()
    shared = _known(lambda: shutil.disk_usage(_SHARED))
    everywhere = _known(lambda: visible_gpus(None)) or ()
    return Machine(
        pool=pool,
        allowed=affinity.allowed(),
        cores=os.cpu_count(),
        free_mib=_known(lambda: int(psutil.virtual_memory().available) // 2**20),
        served=tuple(_served(device) for device in (None, *pool.gpus)),
        hidden_gpus=len(everywhere) - len(pool.gpus),
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        driver=Path("/proc/driver/nvidia/version").exists(),
        torch=_known(lambda: version("torch")),
        open_files=_known(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)),
        environments=_known(open_files.room),
        shared_mib=None if shared is None else (shared.total // 2**20, shared.free // 2**20),
        egl=_loads(_EGL),
        egl_drivers=bool(_known(_egl_drivers)),
        osmesa=_loads(_OSMESA),
    )


def _served(device: Gpu | None) -> Served:
    def chosen(one_process: bool) -> Choice | None:
        return _known(lambda: choose(device, one_process=one_process))

    return Served(device=device, among_processes=chosen(False), within_process=chosen(True))


def _known(probe: Callable[[], T]) -> T | None:
    try:
        return probe()
    except Exception:  # a doctor who falls ill helps nobody; backends of others are asked too
        return None


def _loads(libraries: tuple[str, ...]) -> bool:
    return any(_known(partial(ctypes.CDLL, name)) is not None for name in libraries)


def _egl_drivers() -> bool:
    return any(file for folder in _EGL_DRIVERS for file in Path(folder).glob("*.json"))
