"""Part of a machine, as a user names it: cores, GPUs, memory. Names and what exists in, the part out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from ebrl.errors import PlanError, UsageError
from ebrl.resources.gpus import Gpu, gpus_named
from ebrl.resources.topology import core_ranges, parse_cores

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
"""Bytes by unit."""


def cores(wanted: str | Iterable[int] | None, allowed: AbstractSet[int]) -> tuple[int, ...]:
    """The core ids `wanted`, ascending; all that are `allowed` for None.

    Raises UsageError for what is no list of core ids, PlanError for a core that this process may not use.
    """
    if wanted is None:
        return tuple(sorted(allowed))
    found = _core_ids(wanted)
    if not found:
        raise UsageError("cores= names no core", hint=f"this process may use {core_ranges(allowed)}; left out, all")
    if missing := sorted(found - allowed):
        raise PlanError(
            f"this process may not use core{'s' if len(missing) > 1 else ''} {core_ranges(missing)}",
            hint=f"it may use {core_ranges(allowed)}, by its affinity mask",
        )
    return tuple(sorted(found))


def _core_ids(wanted: str | Iterable[int]) -> set[int]:
    way = 'write them as "0-7,16-23" or as numbers: [0, 1, 2]'
    if isinstance(wanted, str):
        try:
            return set(parse_cores(wanted)) if wanted.strip() else set()
        except ValueError as error:
            raise UsageError(f"cores={wanted!r} is no list of core ids: {error}", hint=way) from None
    return {_core_id(entry, way) for entry in _entries("cores", wanted, way)}


def _core_id(entry: object, way: str) -> int:
    if isinstance(entry, bool) or not isinstance(entry, int):
        raise UsageError(f"cores= holds {entry!r}, which is no core id", hint=way)
    return entry


def gpus(wanted: str | Iterable[int | str] | None, visible: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The devices `wanted`, in that order; all that are `visible` for None. An index means every instance of a
    partitioned GPU.

    Raises UsageError for what is no list of devices, PlanError for one that does not exist, is named twice, or
    could be several.
    """
    if wanted is None:
        return tuple(visible)
    way = 'write indices and beginnings of UUIDs: [0, "GPU-8932"]'
    entries = [part for part in wanted.split(",") if part.strip()] if isinstance(wanted, str) else wanted
    chosen: list[Gpu] = []
    for entry in _entries("gpus", entries, way):
        if isinstance(entry, bool) or not isinstance(entry, int | str):
            raise UsageError(f"gpus= holds {entry!r}, which names no GPU", hint=way)
        named = gpus_named(visible, str(entry).strip())
        if not named:
            raise PlanError(f"there is no GPU {entry!r}", hint=_existing(visible))
        if len(named) > 1 and not str(entry).strip().isdecimal():
            raise PlanError(f"{entry!r} is the beginning of {len(named)} UUIDs", hint=_existing(named))
        if twice := [gpu.uuid for gpu in named if gpu in chosen]:
            raise PlanError(f"gpus= names {twice[0]} twice", hint="name every device once")
        chosen += named
    return tuple(chosen)


def _existing(devices: Sequence[Gpu]) -> str:
    if not devices:
        return "this process sees no GPU: see `ebrl doctor`"
    return "there are " + ", ".join(gpu.uuid if gpu.index is None else f"{gpu.index} ({gpu.uuid})" for gpu in devices)


def memory_mib(wanted: str | int | None, most_mib: int) -> int:
    """The memory `wanted`, in MiB; all of `most_mib` for None.

    Raises UsageError for what is no amount of memory, PlanError for more than there is.
    """
    found = most_mib if wanted is None else _mib(wanted)
    if found > most_mib:
        raise PlanError(f"memory={wanted!r} is more than this process may use", hint=f"it may use {most_mib} MiB")
    return found


def _mib(wanted: object) -> int:
    found = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None
    if isinstance(wanted, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", wanted, flags=re.ASCII)
        found = None if match is None else int(float(match[1]) * _UNITS[match[2]]) // 2**20
    if found is None or found < 1:
        raise UsageError(
            f"memory={wanted!r} is no amount of memory of 1 MiB or more", hint='write it as "64GiB" or in MiB: 65536'
        )
    return found


def _entries(name: str, wanted: object, way: str) -> list[object]:
    if not isinstance(wanted, Iterable):
        raise UsageError(f"{name}={wanted!r} is no list", hint=way)
    return list(wanted)
