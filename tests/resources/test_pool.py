from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.resources.pool import ResourcePool


def tree(tmp_path: Path, membership: str, **files: str) -> dict[str, Path]:
    """A fake cgroup file system: keyword arguments are contents by path, with ``__`` for ``/`` and ``_`` kept."""
    root = tmp_path / "cgroup"
    root.mkdir()
    for name, content in files.items():
        file = root / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "membership").write_text(membership)
    return {"root": root, "membership": tmp_path / "membership", "system": tmp_path / "no system"}


def discover(paths: dict[str, Path], cores: int = 64, physical_mib: int = 10_000) -> ResourcePool:
    return ResourcePool.discover(
        **paths, affinity=frozenset(range(cores)), physical_mib=physical_mib, environ={"CUDA_VISIBLE_DEVICES": ""}
    )


def test_version_2(tmp_path: Path) -> None:
    pool = discover(tree(tmp_path, "0::/\n", cpu_dot_max="150000 100000\n", memory_dot_max=f"{512 << 20}\n"))
    assert pool == ResourcePool(cores=(0,), cpu_quota=1.5, memory_mib=512, pinning=pool.pinning)


def test_version_2_takes_the_tightest_ancestor(tmp_path: Path) -> None:
    paths = tree(
        tmp_path,
        "0::/a/b\n",
        a__cpu_dot_max="300000 100000",
        a__b__cpu_dot_max="max 100000",
        a__memory_dot_max="max",
        a__b__memory_dot_max=str(100 << 20),
    )
    pool = discover(paths)
    assert (pool.cores, pool.cpu_quota, pool.memory_mib) == ((0, 1, 2), 3.0, 100)


def test_version_1(tmp_path: Path) -> None:
    paths = tree(
        tmp_path,
        "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n",
        **{
            "cpu,cpuacct__docker__x__cpu_dot_cfs_quota_us": "200000",
            "cpu,cpuacct__docker__x__cpu_dot_cfs_period_us": "100000",
            "memory__docker__x__memory_dot_limit_in_bytes": str(300 << 20),
        },
    )
    pool = discover(paths)
    assert (pool.cores, pool.cpu_quota, pool.memory_mib) == ((0, 1), 2.0, 300)


def test_version_1_without_limits_and_with_the_path_of_the_host(tmp_path: Path) -> None:
    paths = tree(
        tmp_path,
        "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n",
        cpu__cpu_dot_cfs_quota_us="-1",
        cpu__cpu_dot_cfs_period_us="100000",
        memory__memory_dot_limit_in_bytes="9223372036854771712",
    )
    pool = discover(paths, cores=3)
    assert (pool.cores, pool.cpu_quota, pool.memory_mib) == ((0, 1, 2), None, 10_000)


def test_without_cgroups(tmp_path: Path) -> None:
    pool = discover(dict.fromkeys(("root", "membership", "system"), tmp_path / "none"), cores=2)
    assert (pool.cores, pool.cpu_quota, pool.memory_mib) == ((0, 1), None, 10_000)


def test_memory_is_never_more_than_the_machine_has(tmp_path: Path) -> None:
    assert discover(tree(tmp_path, "0::/", memory_dot_max=str(1 << 50))).memory_mib == 10_000


def test_core_ids_are_those_of_the_mask(tmp_path: Path) -> None:
    paths = tree(tmp_path, "0::/", cpu_dot_max="200000 100000")
    pool = ResourcePool.discover(**paths, affinity=frozenset({7, 1, 5}), environ={"CUDA_VISIBLE_DEVICES": ""})
    assert pool.cores == (1, 5)


@given(st.integers(1, 10_000_000), st.integers(1, 1_000_000), st.integers(1, 256))
def test_quota_never_takes_the_last_core(quota: int, period: int, cores: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pool = discover(tree(Path(folder), "0::/", cpu_dot_max=f"{quota} {period}"), cores=cores)
    assert 1 <= len(pool.cores) <= cores
    assert len(pool.cores) <= max(1.0, quota / period)
    assert pool.cpu_quota == quota / period


def test_this_machine() -> None:
    pool = ResourcePool.discover()
    assert set(pool.cores) <= (os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(pool.cores))
    assert pool.memory_mib


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity masks")
def test_an_affinity_mask_is_respected() -> None:
    """As under ``taskset -c N``."""
    before = os.sched_getaffinity(0)
    last = max(before)
    os.sched_setaffinity(0, {last})
    try:
        assert ResourcePool.discover().cores == (last,)
    finally:
        os.sched_setaffinity(0, before)
