"""The doctor's findings from facts, and that it gets over whatever is missing."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from rich.console import Console
from typer.testing import CliRunner

from ebrl import cli, examination
from ebrl.backends import registry
from ebrl.backends.accelerators import green_context
from ebrl.backends.accelerators.choose import choose
from ebrl.backends.accelerators.emulated import emulated_gpus
from ebrl.doctor import Machine, Served, lines, remedies
from ebrl.observe.doctor_table import doctor_table
from ebrl.resources import affinity
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool
from ebrl.resources.topology import Topology

WHOLE = Gpu(
    uuid="GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", index=0, name="NVIDIA H200", memory_mib=143_771,
    compute_capability=(9, 0), sm_count=132,
)  # fmt: skip
SLICE = Gpu(
    uuid="MIG-aaaaaaaa-0000-0000-0000-000000000000", index=1, name="NVIDIA H200 MIG 1g.18gb", memory_mib=16_384,
    mig=True, parent="GPU-1111aaaa-0000", sm_count=16,
)  # fmt: skip
BARE = Gpu(uuid="GPU-ffff")
GOOD = Machine(
    pool=ResourcePool(
        cores=tuple(range(4, 12)),
        memory_mib=64_000,
        topology=Topology(
            siblings=tuple((core, core + 4) for core in range(4, 8)), nodes=((0, (4, 8)), (1, (5, 6, 7, 9, 10, 11)))
        ),
    ),
    allowed=frozenset(range(4, 12)),
    cores=16,
    free_mib=60_000,
    open_files=(1024, 1_048_576),
    environments=209_664,
    shared_mib=(32_000, 31_000),
    egl=True,
    egl_drivers=True,
    torch="2.13.0+cu130",
)


@pytest.fixture(autouse=True)
def no_mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(green_context, "version", lambda name: "2.13.0+cu130")
    monkeypatch.delitem(sys.modules, "torch.cuda.green_contexts", raising=False)  # of the torch that is installed
    return tmp_path


def with_gpus(*gpus: Gpu) -> Machine:
    served = [
        Served(device=gpu, among_processes=choose(gpu), within_process=choose(gpu, one_process=True)) for gpu in gpus
    ]
    return attrs.evolve(GOOD, pool=attrs.evolve(GOOD.pool, gpus=gpus), served=tuple(served), driver=True)


def told(machine: Machine) -> dict[str, str]:
    return {line.topic: line.text for line in lines(machine)}


def test_a_good_machine_needs_nothing() -> None:
    assert told(GOOD) == {
        "cores": "4-11: 8 of 16 may be used",
        "physical cores": "4; 4 of the cores are second threads (SMT)",
        "NUMA nodes": "0: 4, 8; 1: 5-7, 9-11",
        "cgroup quota": "none",
        "memory": "64,000 MiB, 60,000 MiB available",
        "pinning": "possible",
        "GPUs": "none",
        "open files": "1,024 now, 1,048,576 at most: 209,664 environments in one process",
        "shared memory": "32,000 MiB, 31,000 MiB free",
        "rendering": "EGL, no OSMesa",
        "browser": "not needed: the dashboard opens in your own",
    }
    assert not list(remedies(GOOD))
    assert not [line for line in lines(GOOD) if line.concern]


def test_what_is_unknown_is_said_so() -> None:
    machine = Machine(
        pool=ResourcePool(cores=(0,), gpus=(BARE,)), allowed=frozenset({0}), served=(Served(device=BARE),)
    )
    text = told(machine)
    assert text["cores"] == "0: 1 of n/a may be used"
    assert {text[topic] for topic in ("physical cores", "NUMA nodes", "open files", "shared memory")} == {"n/a"}
    assert text["memory"] == "n/a, n/a available"
    assert text["GPU n/a"] == "n/a, n/a SMs, n/a, whole"
    assert text["  shares"] == "n/a: a backend failed"
    assert list(remedies(machine))


def test_a_whole_gpu_without_and_with_mps(no_mps: Path) -> None:
    text = told(with_gpus(WHOLE))
    assert text["GPU 0"] == "NVIDIA H200, 132 SMs, 143,771 MiB, whole"
    assert text["  shares"] == "advisory: nothing divides it"
    assert text["  in one process"] == (
        "enforced by green_context, in steps of 8 SMs (6.1 %); changes while it runs"
    )  # fmt: skip
    (remedy,) = remedies(with_gpus(WHOLE))
    assert remedy.problem == f"nothing keeps stages to their share of GPU 0 (no MPS daemon listens in {no_mps})"
    assert (remedy.way, remedy.command) == ("nvidia-cuda-mps-control -d", True)
    (no_mps / "control").touch()
    (no_mps / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    text = told(with_gpus(WHOLE))
    assert text["  shares"] == "enforced by mps, in steps of 1 %; a change restarts its process"
    assert not list(remedies(with_gpus(WHOLE)))


def test_a_mig_instance() -> None:
    text = told(with_gpus(SLICE))
    assert text["GPU 1"] == "NVIDIA H200 MIG 1g.18gb, 16 SMs, 16,384 MiB, MIG instance of GPU-1111aaaa-0000"
    assert text["  shares"] == "enforced by mig, as a whole; only an administrator changes it"
    assert not list(remedies(with_gpus(SLICE)))


def test_an_emulated_device() -> None:
    assert told(with_gpus(*emulated_gpus(1)))["  shares"] == (
        "enforced by emulated, in steps of 1 SM (0.8 %); changes while it runs"
    )


@pytest.mark.parametrize(
    ("changes", "topic", "problem", "way"),
    [
        ({"pinning": False}, "pinning", "processes cannot be bound to cores", "sched_setaffinity"),
        ({"cpu_quota": 1.5, "cores": (4,)}, "cgroup quota", "quota of 1.5 cores pays for 1, the rest", "--cpus=2"),
        ({"environments": 48}, "open files", "open files allow 48 environments in one process", "nofile=65536"),
        ({"shared_mib": (64, 60)}, "shared memory", "/dev/shm has 60 MiB free", "--shm-size=2g"),
        ({"egl_drivers": False}, "rendering", "nothing can render", "apt-get install libegl1"),
        (
            {"hidden_gpus": 2, "driver": True, "visible_devices": ""},
            "GPUs",
            "CUDA_VISIBLE_DEVICES='' hides every GPU",
            "unset CUDA_VISIBLE_DEVICES",
        ),
        ({"driver": True}, "GPUs", "an NVIDIA driver is loaded, and NVML shows no GPU", "nvidia-smi"),
    ],
)
def test_what_to_fix(changes: dict[str, Any], topic: str, problem: str, way: str) -> None:
    of_pool = {name: changes.pop(name) for name in list(changes) if name in ("pinning", "cpu_quota", "cores")}
    machine = attrs.evolve(GOOD, pool=attrs.evolve(GOOD.pool, **of_pool), **changes)
    (remedy,) = remedies(machine)
    assert problem in remedy.problem
    assert way in remedy.way
    assert [line.topic for line in lines(machine) if line.concern] == [topic]


def test_a_torch_that_cannot_use_the_gpu(no_mps: Path) -> None:
    problems = [remedy.problem for remedy in remedies(attrs.evolve(with_gpus(WHOLE), torch="2.13.0+cpu"))]
    assert problems[0] == "torch 2.13.0+cpu cannot use a GPU"


def test_a_whole_number_of_cores_is_no_waste() -> None:
    pool = attrs.evolve(GOOD.pool, cpu_quota=2.0, cores=(4, 5))
    assert not list(remedies(attrs.evolve(GOOD, pool=pool)))
    wide = attrs.evolve(GOOD.pool, cpu_quota=32.5)  # more than the mask allows
    assert not list(remedies(attrs.evolve(GOOD, pool=wide)))


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal_and_says_everything(width: int) -> None:
    pool = attrs.evolve(GOOD.pool, cpu_quota=1.5, cores=(4,), pinning=False)
    machine = attrs.evolve(with_gpus(WHOLE, SLICE, BARE), pool=attrs.evolve(pool, gpus=(WHOLE, SLICE, BARE)))
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(doctor_table(machine))
    text = console.export_text()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    for word in (WHOLE.uuid, SLICE.uuid, "what to fix", "$ nvidia-cuda-mps-control -d"):
        assert word in text


def test_the_command() -> None:
    done = CliRunner().invoke(cli.app, ["doctor"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "physical cores" in done.stdout
    assert "to fix" in done.stdout


def broken(*_: Any, **__: Any) -> Any:
    raise OSError("not here")


@pytest.mark.parametrize(
    "missing",
    [
        (resource, "getrlimit"),
        (shutil, "disk_usage"),
        (ctypes, "CDLL"),
        (os, "sched_setaffinity"),
        (examination, "version"),
        (examination, "choose"),
        (examination, "visible_gpus"),
        (Path, "glob"),
        (Path, "iterdir"),
    ],
    ids=lambda found: found[1],
)
def test_whatever_is_missing_it_answers(missing: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*missing, broken)
    done = CliRunner().invoke(cli.app, ["doctor"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "cores" in done.stdout


def test_without_affinity_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sched_setaffinity", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    machine = examination.examine()
    assert machine.allowed == frozenset(range(os.cpu_count() or 1))
    assert not machine.pool.pinning
    assert not affinity.supported()


def test_a_backend_of_the_user_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("no such library")

    monkeypatch.setitem(registry._registered[registry.ACCELERATORS], "mine", fails)
    done = CliRunner().invoke(cli.app, ["doctor"])
    assert done.exit_code == 0
    assert "a backend failed" in done.stdout


def test_it_loads_neither_torch_nor_dask() -> None:
    code = "import sys; from ebrl.examination import examine; examine(); print({'torch', 'dask'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"
