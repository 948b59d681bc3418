from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ebrl.errors import PlanError, UsageError
from ebrl.resources.gpus import Gpu
from ebrl.resources.narrowing import gpus as narrowed
from ebrl.resources.pool import ResourcePool

from .test_gpus import FIRST, SECOND, SLICES, THIRD, FakeNvml
from .test_pool import tree
from .test_topology import system


def discover(tmp_path: Path, quota: str = "max 100000", **wanted: Any) -> ResourcePool:
    """Cores 8 to 15 of a machine where 8 and 9, 10 and 11 ... share a physical core; 1000 MiB; three GPUs."""
    paths = tree(tmp_path, "0::/", cpu_dot_max=quota)
    paths["system"] = system(tmp_path, {core: f"{core // 2 * 2}-{core // 2 * 2 + 1}" for core in range(16)}, {})
    nvml = FakeNvml(FIRST, SECOND, THIRD, mig={SECOND: SLICES})
    environ = {"CUDA_VISIBLE_DEVICES": wanted.pop("visible", "0,1,2")}
    mask = frozenset(range(8, 16))
    return ResourcePool.discover(**paths, affinity=mask, physical_mib=1000, environ=environ, nvml=nvml, **wanted)


@pytest.mark.parametrize(
    ("wanted", "cores"),
    [
        (None, (8, 9, 10, 11, 12, 13, 14, 15)),
        ("8-9,15", (8, 9, 15)),
        (" 12 , 9 - 10 ", (9, 10, 12)),
        ([15, 8, 8], (8, 15)),
        (range(10, 12), (10, 11)),
        ({14}, (14,)),
    ],
)
def test_cores(tmp_path: Path, wanted: Any, cores: tuple[int, ...]) -> None:
    assert discover(tmp_path, cores=wanted).cores == cores


def test_a_quota_pays_for_physical_cores_first(tmp_path: Path) -> None:
    pool = discover(tmp_path, quota="300000 100000")
    assert pool.cores == (8, 10, 12)
    assert pool.topology.physical(pool.cores) == 3


def test_a_quota_also_bounds_the_cores_that_are_named(tmp_path: Path) -> None:
    assert discover(tmp_path, quota="200000 100000", cores="12-15").cores == (12, 14)


@pytest.mark.parametrize(
    ("wanted", "uuids"),
    [
        (None, [FIRST, *SLICES, THIRD]),
        ([2, 0], [THIRD, FIRST]),
        ([1], list(SLICES)),
        (["GPU-8932f937"], [FIRST]),
        (["mig-bbbb", 0], [SLICES[1], FIRST]),
        ("2,0", [THIRD, FIRST]),
        (" ", []),
        ([], []),
    ],
)
def test_gpus(tmp_path: Path, wanted: Any, uuids: list[str]) -> None:
    assert [gpu.uuid for gpu in discover(tmp_path, gpus=wanted).gpus] == uuids


@pytest.mark.parametrize(
    ("wanted", "mib"),
    [(None, 1000), ("512MiB", 512), (" 0.5 GiB", 512), ("100MB", 95), (64, 64), (1000, 1000), ("2048KiB", 2)],
)
def test_memory(tmp_path: Path, wanted: Any, mib: int) -> None:
    assert discover(tmp_path, memory=wanted).memory_mib == mib


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ({"cores": "7-9"}, "this process may not use core 7", "it may use 8-15, by its affinity mask"),
        ({"cores": [0, 1, 99]}, "this process may not use cores 0-1, 99", "it may use 8-15"),
        ({"cores": [-1]}, "this process may not use core -1", "8-15"),
        ({"gpus": [3]}, "there is no GPU 3", f"there are 0 ({FIRST}), 1 ({SLICES[0]}), 1 ({SLICES[1]}), 2 ({THIRD})"),
        ({"gpus": ["GPU-0000"]}, "there is no GPU 'GPU-0000'", "there are 0"),
        ({"gpus": [SECOND]}, f"there is no GPU '{SECOND}'", "there are 0"),  # partitioned: only its instances exist
        ({"gpus": ["GPU-8932"]}, "'GPU-8932' is the beginning of 2 UUIDs", f"0 ({FIRST}), 2 ({THIRD})"),
        ({"gpus": [0, 0]}, f"gpus= names {FIRST} twice", "once"),
        ({"gpus": [0], "visible": ""}, "there is no GPU 0", "this process sees no GPU"),
        ({"gpus": [0], "visible": "2"}, "there is no GPU 0", f"there are 2 ({THIRD})"),
        ({"memory": "2GiB"}, "memory='2GiB' is more than this process may use", "it may use 1000 MiB"),
        ({"memory": 1001}, "memory=1001 is more than", "1000 MiB"),
    ],
)
def test_what_does_not_exist(tmp_path: Path, wanted: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        discover(tmp_path, **wanted)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"cores": "a-b"}, "cores='a-b' is no list of core ids: 'a-b' is neither a core id nor a range of core ids"),
        ({"cores": "9-8"}, "'9-8' ends before it begins"),
        ({"cores": ""}, "cores= names no core"),
        ({"cores": []}, "cores= names no core"),
        ({"cores": [1.5]}, "cores= holds 1.5, which is no core id"),
        ({"cores": [True]}, "cores= holds True, which is no core id"),
        ({"cores": 3}, "cores=3 is no list"),
        ({"gpus": [None]}, "gpus= holds None, which names no GPU"),
        ({"gpus": 0}, "gpus=0 is no list"),
        ({"memory": "64"}, "memory='64' is no amount of memory"),
        ({"memory": "64GB of it"}, "is no amount of memory"),
        ({"memory": 0}, "memory=0 is no amount of memory"),
        ({"memory": -5}, "memory=-5 is no amount of memory"),
        ({"memory": True}, "memory=True is no amount of memory"),
        ({"memory": "1KiB"}, "of 1 MiB or more"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        discover(tmp_path, **wanted)
    assert message in caught.value.message
    assert caught.value.hint


def test_devices_without_an_index() -> None:
    with pytest.raises(PlanError) as caught:
        narrowed([0], [Gpu(uuid="GPU-1")])
    assert caught.value.hint == "there are GPU-1"


def test_this_machine() -> None:
    core = max(ResourcePool.discover().cores)
    pool = ResourcePool.discover(cores=str(core), gpus=[], memory=1)
    assert (pool.cores, pool.gpus, pool.memory_mib) == ((core,), (), 1)
    assert core < (os.cpu_count() or 1_000) * 64
