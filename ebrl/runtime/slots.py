"""Slots: one row per environment in anonymous shared memory. Standard library and numpy only,
Python 3.8 on.

The simulation worker owns the memory and hands its file descriptor on; environment processes inherit it,
the generation worker receives it over a Unix socket. The memory has no name, so nothing can be left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec
from ebrl.graph.items import Array
from ebrl.runtime.failure import ContractError

OBSERVATION = "observation."
TEXT_BYTES = 512
"""Most bytes of a text observation, in UTF-8."""


def anonymous_memory() -> int:
    """A file descriptor of shared memory without a name; its size is set by `Slots.create`."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ebrl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def layout(spec: SimulatorSpec, *, rows: int, chunk: int) -> dict[str, Any]:
    """Names, types and offsets of all fields, as plain data that can be sent. ContractError where this machine has
    not as much memory."""
    action = spec.action
    observations: dict[str, tuple[str, tuple[int, ...]]] = {
        OBSERVATION + key: (f"S{TEXT_BYTES}" if space.dtype == "str" else space.dtype, tuple(space.shape))
        for key, space in spec.observation.items()
    }
    fields = {
        **observations,
        "actions": (action.dtype, (chunk, *action.shape)),
        "log_probs": ("float32", (chunk, math.prod(action.shape))),
        "rewards": ("float32", (chunk,)),
        "position": ("int32", ()),  # actions of the chunk before the one that runs
        "version": ("int64", ()),
        "min_version": ("int64", ()),
        "seed": ("uint64", ()),
    }
    described, offset = {}, 0
    for name, (dtype, shape) in fields.items():
        described[name] = (dtype, (rows, *shape), offset)
        size = math.prod((rows, *shape)) * np.dtype(dtype).itemsize
        offset = -(-(offset + size) // 64) * 64  # cache lines are not shared between fields
    if offset > _memory_bytes():
        raise ContractError(_too_large(fields, rows))
    return {"rows": rows, "chunk": chunk, "size": max(offset, 1), "fields": described}


def _too_large(fields: Mapping[str, tuple[str, tuple[int, ...]]], rows: int) -> str:
    """The sentence that names the largest field."""
    bytes_of = {name: math.prod(shape) * np.dtype(dtype).itemsize for name, (dtype, shape) in fields.items()}
    name = max(bytes_of, key=bytes_of.__getitem__)
    dtype, shape = fields[name]
    key = f"observation '{name[len(OBSERVATION) :]}'" if name.startswith(OBSERVATION) else f"the field '{name}'"
    return (
        f"{key}, {dtype} {shape}, is too large: {bytes_of[name]:,} bytes per environment ({rows} of them), and this "
        f"machine has {_memory_bytes() >> 20:,} MiB"
    )


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Slots:
    """The rows as numpy arrays, each [rows, ...], by field name."""

    def __init__(self, descriptor: int, described: Mapping[str, Any]) -> None:
        self.descriptor = descriptor
        self.layout = described
        self.rows: int = described["rows"]
        self.chunk: int = described["chunk"]
        self._memory = mmap.mmap(descriptor, described["size"])
        self.arrays: dict[str, Array] = {
            name: np.ndarray(tuple(shape), dtype, self._memory, offset)
            for name, (dtype, shape, offset) in described["fields"].items()
        }
        self.observations: dict[str, Array] = {
            name[len(OBSERVATION) :]: array for name, array in self.arrays.items() if name.startswith(OBSERVATION)
        }

    @staticmethod
    def create(descriptor: int, described: Mapping[str, Any]) -> Slots:
        """The memory gets its size, which nobody can change from now on: whoever touches what is gone would die."""
        os.ftruncate(descriptor, described["size"])
        with contextlib.suppress(AttributeError, OSError):  # seals are Linux's, and of memory without a file
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return Slots(descriptor, described)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def write_observation(self, row: int, observation: Mapping[str, Any]) -> None:
        for key, array in self.observations.items():
            value = observation[key]
            array[row] = value.encode() if isinstance(value, str) else value

    def columns(self, rows: Any) -> dict[str, Any]:
        """Observations of `rows`, stacked; text as a list of str."""
        return {
            key: [text.decode() for text in array[rows]] if array.dtype.char == "S" else array[rows]
            for key, array in self.observations.items()
        }
