"""CPU and memory limits of the control group of this process, version 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes a number near 2**63 where there is no memory limit."""


@attrs.define(frozen=True, kw_only=True)
class Limits:
    cpus: float | None = None
    """CPU time per wall time."""
    memory_mib: int | None = None


def read_limits(root: Path, membership: Path) -> Limits:
    """The tightest limits on the way from this process's group to the root; None where nothing limits.

    `root` is the mounted cgroup file system, `membership` is ``/proc/self/cgroup``.
    """
    cpus: list[float] = []
    memory: list[int] = []
    for controllers, path in _groups(membership):
        for folder in _folders(root, controllers, path):
            cpus += _cpus(folder)
            memory += _memory(folder)
    return Limits(cpus=min(cpus, default=None), memory_mib=min(memory, default=None))


def _groups(membership: Path) -> Iterator[tuple[str, str]]:
    """(controllers, path) per line; controllers are empty for version 2."""
    for line in _read(membership).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[1] in ("", "cpu", "cpu,cpuacct", "cpuacct,cpu", "memory"):
            yield parts[1], parts[2]


def _folders(root: Path, controllers: str, path: str) -> Iterator[Path]:
    mounts = [root] if not controllers else [root / name for name in (controllers, *controllers.split(","))]
    # In a container the path may be the host's, of which only the root is mounted.
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for mount in mounts:
        yield from (mount.joinpath(*parts[:depth]) for depth in range(len(parts) + 1))


def _cpus(folder: Path) -> list[float]:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    try:
        cpus = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return []
    return [cpus] if cpus > 0 else []


def _memory(folder: Path) -> list[int]:
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    return [int(text) // 2**20] if text.isdigit() and int(text) < _UNLIMITED_BYTES else []


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
