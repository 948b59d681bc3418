from __future__ import annotations

import math
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.backends.accelerators import emulated, green_context, mps
from ebrl.backends.accelerators.choose import choose
from ebrl.backends.accelerators.cpu import Cpu
from ebrl.backends.accelerators.emulated import Emulated, emulated_gpus
from ebrl.backends.accelerators.green_context import GreenContexts
from ebrl.backends.accelerators.mig import Mig
from ebrl.backends.accelerators.mps import Mps
from ebrl.backends.protocols import IMPOSSIBLE, LIVE, RESTART, Accelerator, Granularity, Share, Unavailable
from ebrl.backends.registry import accelerator_names, load_accelerator
from ebrl.resources import affinity
from ebrl.resources.gpus import Gpu
from ebrl.resources.machine_spec import machine
from ebrl.resources.pool import ResourcePool

WHOLE = Gpu(uuid="GPU-8932", index=0, compute_capability=(9, 0), sm_count=132)
BARE = Gpu(uuid="GPU-8932")
SLICE = Gpu(uuid="MIG-aaaa", index=0, mig=True, parent="GPU-8932", compute_capability=(9, 0), sm_count=16)
FIRST_PARTY = ("cpu", "emulated", "green_context", "mig", "mps")


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a running MPS daemon leaves in its folder; its process is this one."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    (tmp_path / "control").touch()
    (tmp_path / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
    return tmp_path


@pytest.fixture
def no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "none"))


@pytest.fixture
def torch_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.delitem(sys.modules, "torch.cuda.green_contexts", raising=False)
    return lambda installed: monkeypatch.setattr(green_context, "version", lambda name: installed)


def test_all_are_found_by_name_and_keep_the_protocol() -> None:
    assert set(FIRST_PARTY) <= set(accelerator_names())
    for name in FIRST_PARTY:
        found = load_accelerator(name)()
        assert isinstance(found, Accelerator)
        assert found.change in (LIVE, RESTART, IMPOSSIBLE)
        assert isinstance(found.enforced, bool)


def test_each_says_what_it_does() -> None:
    assert [it.change for it in (Cpu(), Mps(), Mig(), GreenContexts(), Emulated())] == [
        LIVE, RESTART, IMPOSSIBLE, LIVE, LIVE,
    ]  # fmt: skip
    assert Mps().granularity(WHOLE) == Granularity(1, "percent")
    assert Mig().granularity(SLICE) == Granularity(100, "percent")
    assert GreenContexts().granularity(WHOLE) == Granularity(8, "SMs")
    assert GreenContexts().granularity(attrs.evolve(WHOLE, compute_capability=(8, 6))) == Granularity(2, "SMs")
    assert GreenContexts().granularity(BARE) == Granularity(8, "SMs")


@pytest.mark.parametrize("name", FIRST_PARTY)
@given(percent=st.floats(0.01, 100), sm_count=st.none() | st.integers(1, 200))
def test_a_rounded_share_is_one_that_exists(name: str, percent: float, sm_count: int | None) -> None:
    accelerator: Accelerator = load_accelerator(name)()
    device = attrs.evolve(WHOLE, sm_count=sm_count)
    rounded = accelerator.round(percent, device)
    assert 0 < rounded <= 100
    assert math.isclose(accelerator.round(rounded, device), rounded)
    Share(sm_percent=rounded)


@pytest.mark.parametrize(
    ("percent", "sms"), [(0.1, 8), (9.2, 16), (25, 32), (48.4, 64), (50, 64), (96, 128), (99.9, 132), (100, 132)]
)
def test_green_contexts_have_multiples_of_eight_sms(percent: float, sms: int) -> None:
    assert GreenContexts().round(percent, WHOLE) == pytest.approx(sms * 100 / 132)


@pytest.mark.parametrize(
    ("share", "environment"),
    [
        (Share("GPU-1"), {"CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"}),
        (
            Share("GPU-1", 24.6, memory_mib=4096),
            {
                "CUDA_VISIBLE_DEVICES": "GPU-1",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4096MB",
            },
        ),
        (Share("GPU-1", 0.1), {"CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "1"}),
    ],
)
def test_the_environment_of_a_client_of_mps(
    share: Share, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    assert Mps().environment(share) == environment
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere")
    assert Mps().environment(share) == environment | {"CUDA_MPS_PIPE_DIRECTORY": "/elsewhere"}


def test_the_environments_of_the_others() -> None:
    assert Mig().environment(Share("MIG-aaaa", 30)) == {"CUDA_VISIBLE_DEVICES": "MIG-aaaa"}
    assert GreenContexts().environment(Share("GPU-1", 30)) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
    threads = Cpu().environment(Share(threads=3))
    assert threads == dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "3"
    )
    assert set(Cpu().environment(Share(cores=(4, 5))).values()) == {"2"}
    assert Cpu().environment(Share()) == {}


@pytest.mark.parametrize(
    "wrong", [{"sm_percent": 0}, {"sm_percent": 101}, {"sm_percent": math.nan}, {"memory_mib": 0}, {"threads": 0}]
)
def test_impossible_shares(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a Share has"):
        Share(**wrong)


class TestMpsDaemon:
    def test_one_that_runs(self, daemon: Path) -> None:
        assert Mps().available(WHOLE) is None

    @pytest.mark.parametrize("device", [None, SLICE, *emulated_gpus(1)])
    def test_serves_whole_gpus_only(self, daemon: Path, device: Gpu | None) -> None:
        assert Mps().available(device) == Unavailable("the device is no whole GPU")

    def test_none_was_started(self, no_daemon: None) -> None:
        lacks = Mps().available(WHOLE)
        assert lacks is not None
        assert "no MPS daemon listens in " in lacks.reason
        assert lacks.hint == "nvidia-cuda-mps-control -d"

    @pytest.mark.parametrize("pid", ["ended", "0", "-1", "nonsense", "", "9" * 30])
    def test_one_that_has_ended(self, daemon: Path, pid: str) -> None:
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        (daemon / "nvidia-cuda-mps-control.pid").write_text(pid.replace("ended", str(child.pid)))
        lacks = Mps().available(WHOLE)
        assert lacks is not None
        assert lacks.reason == f"the MPS daemon of {daemon} has ended"

    def test_one_without_a_process_id(self, daemon: Path) -> None:
        (daemon / "nvidia-cuda-mps-control.pid").unlink()
        lacks = Mps().available(WHOLE)
        assert lacks is not None
        assert "without its process id" in lacks.reason

    def test_of_another_user(self, daemon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> None:
            raise PermissionError

        monkeypatch.setattr(mps.os, "kill", refuse)
        assert Mps().available(WHOLE) is None


class TestTorchOfGreenContexts:
    @pytest.mark.parametrize(
        ("installed", "reason"),
        [
            ("2.9.1+cu128", "torch 2.9.1+cu128 knows no green contexts"),
            ("nightly", "torch nightly knows no green contexts"),
            ("2.13.0+cpu", "torch 2.13.0+cpu is built without green contexts"),
        ],
    )
    def test_too_old_or_for_the_cpu(self, torch_version: Any, installed: str, reason: str) -> None:
        torch_version(installed)
        lacks = GreenContexts().available(WHOLE)
        assert lacks is not None
        assert lacks.reason == reason
        assert lacks.hint

    @pytest.mark.parametrize("installed", ["2.10.0", "2.13.0+cu130", "3.0"])
    def test_new_enough(self, torch_version: Any, installed: str) -> None:
        torch_version(installed)
        assert GreenContexts().available(WHOLE) is None
        assert GreenContexts().available(BARE) == Unavailable("the number of SMs of the device is unknown")
        assert GreenContexts().available(None) == Unavailable("the device is no GPU")

    def test_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> str:
            raise PackageNotFoundError(name)

        monkeypatch.setattr(green_context, "version", missing)
        assert GreenContexts().available(WHOLE) == Unavailable("torch is not installed", "pip install 'torch>=2.10'")


def test_a_green_context_replaces_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Context:
        @staticmethod
        def create(*, num_sms: int, device_id: int) -> Context:
            calls.append(("create", num_sms, device_id))
            return Context()

        def set_context(self) -> None:
            calls.append("set")

        def pop_context(self) -> None:
            calls.append("pop")

    properties = types.SimpleNamespace(multi_processor_count=132, major=9)
    cuda = types.SimpleNamespace(get_device_properties=lambda index: properties)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]
    module = types.SimpleNamespace(GreenContext=Context)
    monkeypatch.setitem(sys.modules, "torch.cuda.green_contexts", module)  # type: ignore[arg-type]
    accelerator = GreenContexts()
    for percent in (100, 50, 25, 100):
        accelerator.apply(Share("GPU-8932", percent))
    assert calls == [("create", 64, 0), "set", "pop", ("create", 32, 0), "set", "pop"]


@pytest.mark.skipif(not affinity.supported(), reason="needs affinity masks")
def test_the_cpu_share_binds_and_sizes_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(set_num_threads=sizes.append))  # type: ignore[arg-type]
    before = os.sched_getaffinity(0)
    core = max(before)
    try:
        Cpu().apply(Share(cores=(core,), threads=2))
        assert os.sched_getaffinity(0) == {core}
        Cpu().apply(Share(cores=tuple(before)))
        Cpu().apply(Share())
        assert os.sched_getaffinity(0) == before
    finally:
        affinity.bind(os.getpid(), before)
    assert sizes == [2, len(before)]


@pytest.mark.parametrize("fault", ["refused", "unsupported"])
def test_where_nothing_can_be_bound_the_cpu_share_is_advisory(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError

    if fault == "refused":
        monkeypatch.setattr(os, "sched_setaffinity", refuse, raising=False)
    else:
        monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    monkeypatch.setattr(affinity, "_warned", True)
    assert not Cpu().enforced
    Cpu().apply(Share(cores=(0,)))


@pytest.fixture
def applied_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(emulated, "_applied", {})
    yield


@pytest.mark.usefixtures("applied_nothing")
def test_a_process_has_one_share_of_each_emulated_device() -> None:
    first, second = emulated_gpus(2, sm_count=100, memory_mib=1000)
    assert (first.uuid, second.index, second.sm_count, second.memory_mib) == ("EMULATED-0", 1, 100, 1000)
    for share in (Share(first.uuid, 25), Share(second.uuid, 70), Share(first.uuid, 50)):
        Emulated().apply(share)
    assert emulated.applied() == (Share(first.uuid, 50), Share(second.uuid, 70))


def test_an_emulated_machine_binds_nobody_and_keeps_its_models() -> None:
    pool = emulated.emulated(machine("2xH100,1xH20,56c,512GiB"))
    assert (len(pool.cores), pool.pinning, pool.memory_mib) == (56, False, 512 * 1024)
    assert [gpu.uuid for gpu in pool.gpus] == ["EMULATED-0", "EMULATED-1", "EMULATED-2"]
    assert [gpu.name for gpu in pool.gpus] == ["NVIDIA H100 80GB HBM3"] * 2 + ["NVIDIA H20"]
    assert {choose(gpu).name for gpu in pool.gpus} == {"emulated"}


class TestChoice:
    @pytest.mark.parametrize(
        ("device", "one_process", "name"),
        [
            (None, False, "cpu"),
            (SLICE, False, "mig"),
            (WHOLE, False, "mps"),
            (WHOLE, True, "green_context"),
            (SLICE, True, "green_context"),
            (BARE, True, "none"),
            (emulated_gpus(1)[0], False, "emulated"),
            (emulated_gpus(1)[0], True, "emulated"),
        ],
    )
    def test_where_everything_is_there(
        self, daemon: Path, torch_version: Any, device: Gpu | None, one_process: bool, name: str
    ) -> None:
        torch_version("2.13.0+cu130")
        choice = choose(device, one_process=one_process, names=FIRST_PARTY)
        assert choice.name == name
        assert choice.enforced is (name != "none") or name == "cpu"
        assert {name, *choice.others} - {"none"} == set(FIRST_PARTY)

    @pytest.mark.parametrize(("device", "name"), [(None, "cpu"), (SLICE, "mig"), (WHOLE, "none")])
    @pytest.mark.parametrize("one_process", [False, True])
    def test_where_nothing_is_there(
        self, no_daemon: None, torch_version: Any, device: Gpu | None, one_process: bool, name: str
    ) -> None:
        torch_version("2.13.0+cpu")
        choice = choose(device, one_process=one_process, names=FIRST_PARTY)
        assert choice.name == name
        if name == "none":
            assert not choice.enforced
            assert choice.accelerator is None
            assert choice.others["mps"].reason

    def test_one_of_the_users_own(self) -> None:
        class Mine(Mig):
            change = LIVE

            def available(self, device: Any) -> None:
                return None

        choice = choose(SLICE, names=["mig", "mine"], load=lambda name: {"mig": Mig, "mine": Mine}[name])
        assert (choice.name, choice.others) == ("mine", {"mig": Unavailable("mine serves it")})


@pytest.mark.parametrize("device", [pytest.param("gpu", marks=pytest.mark.gpu), "emulated"])
@pytest.mark.usefixtures("applied_nothing")
def test_a_device_is_served_and_takes_shares_one_after_the_other(device: str) -> None:
    """Needs, for a real GPU, torch with CUDA."""
    gpus = ResourcePool.discover().gpus if device == "gpu" else emulated_gpus(1)
    if not gpus:
        pytest.skip("no GPU here")
    assert gpus[0].sm_count
    choice = choose(gpus[0], one_process=True)
    assert choice.enforced, choice.others
    accelerator = choice.accelerator
    assert accelerator is not None
    for wanted in (50.0, 25.0, 100.0):
        share = Share(gpus[0].uuid, accelerator.round(wanted, gpus[0]))
        assert share.sm_percent == pytest.approx(wanted, abs=100 * 8 / gpus[0].sm_count)
        assert accelerator.environment(share)
        if accelerator.change == LIVE:
            accelerator.apply(share)
