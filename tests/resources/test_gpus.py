from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from ebrl.resources.gpus import Gpu, visible_gpus

FIRST, SECOND, THIRD = "GPU-8932f937-d72c", "GPU-1111aaaa-0000", "GPU-8932ffff-0000"
SLICES = ("MIG-aaaa-1", "MIG-bbbb-2")


class NotSupported(Exception):
    pass


class FakeNvml:
    """Devices by UUID, some of them partitioned. `broken` names a function that raises, or gives `instead`."""

    def __init__(
        self, *uuids: str, mig: dict[str, tuple[str, ...]] | None = None, broken: str = "", instead: Any = NotSupported
    ) -> None:
        self.uuids, self.mig, self.broken, self.instead = uuids, mig or {}, broken, instead

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name == object.__getattribute__(self, "broken"):
            return self._fail
        return object.__getattribute__(self, name)

    def _fail(self, *_: Any) -> Any:
        if self.instead is NotSupported:
            raise NotSupported
        return self.instead

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.uuids[index]

    def nvmlDeviceGetUUID(self, handle: str) -> bytes:
        return handle.encode()

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "Fake"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=80 << 30)

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return 9, 0

    def nvmlDeviceGetNumGpuCores(self, handle: str) -> int:
        return 132 * 128

    def _attributes(self, handle: str) -> Any:
        if not handle.startswith("MIG"):
            raise NotSupported
        return SimpleNamespace(multiprocessorCount=16)

    def nvmlDeviceGetAttributes_v2(self, handle: str) -> Any:
        return self._attributes(handle)

    def nvmlDeviceGetAttributes(self, handle: str) -> Any:
        return self._attributes(handle)

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        if handle not in self.mig:
            raise NotSupported
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, number: int) -> str:
        if number >= len(self.mig[handle]):
            raise NotSupported
        return self.mig[handle][number]


FUNCTIONS = sorted(name for name in vars(FakeNvml) if name.startswith("nvml"))
WHOLE = Gpu(uuid=FIRST, index=0, name="Fake", memory_mib=80 << 10, compute_capability=(9, 0), sm_count=132)
SLICE = Gpu(
    uuid=SLICES[0], index=0, name="Fake", memory_mib=80 << 10, mig=True, parent=FIRST, compute_capability=(9, 0),
    sm_count=16,
)  # fmt: skip


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, [FIRST, SECOND, THIRD]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("0", [FIRST]),
        ("1,0", [SECOND, FIRST]),
        ("1, 2", [SECOND, THIRD]),
        ("0,-1,1", [FIRST]),
        ("7", []),
        ("0,0", [FIRST]),
        (FIRST, [FIRST]),
        ("GPU-8932f937", [FIRST]),
        ("gpu-1111", [SECOND]),
        ("GPU-8932", []),  # not unique
        (f"{THIRD},{FIRST}", [THIRD, FIRST]),
        ("nonsense", []),
    ],
)
def test_visible_devices(visible: str | None, uuids: list[str]) -> None:
    assert [gpu.uuid for gpu in visible_gpus(visible, FakeNvml(FIRST, SECOND, THIRD))] == uuids


def test_mig_instances_stand_for_their_gpu() -> None:
    nvml = FakeNvml(FIRST, SECOND, mig={SECOND: SLICES})
    assert [(gpu.uuid, gpu.index, gpu.mig) for gpu in visible_gpus(None, nvml)] == [
        (FIRST, 0, False),
        (SLICES[0], 1, True),
        (SLICES[1], 1, True),
    ]
    assert [gpu.uuid for gpu in visible_gpus("MIG-bbbb-2", nvml)] == ["MIG-bbbb-2"]
    assert [gpu.uuid for gpu in visible_gpus("MIG-bbbb-2,0", nvml)] == ["MIG-bbbb-2", FIRST]


def test_a_whole_gpu_and_an_instance_with_all_their_fields() -> None:
    assert visible_gpus(None, FakeNvml(FIRST)) == (WHOLE,)
    assert visible_gpus(None, FakeNvml(FIRST, mig={FIRST: SLICES[:1]})) == (SLICE,)


LOST_OF_WHOLE: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetMemoryInfo": ("memory_mib",),
    "nvmlDeviceGetCudaComputeCapability": ("compute_capability", "sm_count"),
    "nvmlDeviceGetNumGpuCores": ("sm_count",),
}
LOST_OF_SLICE: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetMemoryInfo": ("memory_mib",),
    "nvmlDeviceGetCudaComputeCapability": ("compute_capability",),
}
NEEDED = {"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"}


def without(gpu: Gpu, names: tuple[str, ...]) -> Gpu:
    return attrs.evolve(gpu, **dict.fromkeys(names))


@pytest.mark.parametrize("instead", [NotSupported, None], ids=["raises", "gives None"])
@pytest.mark.parametrize("broken", FUNCTIONS)
def test_every_function_of_nvml_may_fail(broken: str, instead: Any) -> None:
    whole = visible_gpus(None, FakeNvml(FIRST, broken=broken, instead=instead))
    if broken in NEEDED or (broken == "nvmlInit" and instead is NotSupported):
        assert whole == ()
    else:
        assert whole == (without(WHOLE, LOST_OF_WHOLE.get(broken, ())),)


@pytest.mark.parametrize("instead", [NotSupported, None], ids=["raises", "gives None"])
@pytest.mark.parametrize("broken", FUNCTIONS)
def test_every_function_of_nvml_may_fail_on_a_partitioned_gpu(broken: str, instead: Any) -> None:
    found = visible_gpus(None, FakeNvml(FIRST, mig={FIRST: SLICES[:1]}, broken=broken, instead=instead))
    if broken in NEEDED or (broken == "nvmlInit" and instead is NotSupported):
        assert found == ()
    elif broken in ("nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"):
        assert found == (WHOLE,)
    else:
        assert found == (without(SLICE, LOST_OF_SLICE.get(broken, ())),)


def test_both_names_of_the_attributes_may_be_missing() -> None:
    nvml = FakeNvml(FIRST, mig={FIRST: SLICES[:1]}, broken="nvmlDeviceGetAttributes_v2")
    assert [gpu.sm_count for gpu in visible_gpus(None, nvml)] == [16]  # the old name is asked next
    del_both = type("Old", (FakeNvml,), {"nvmlDeviceGetAttributes": None, "nvmlDeviceGetAttributes_v2": None})
    assert [gpu.sm_count for gpu in visible_gpus(None, del_both(FIRST, mig={FIRST: SLICES[:1]}))] == [None]


@pytest.mark.parametrize(
    ("function", "given", "sms"),
    [
        ("nvmlDeviceGetCudaComputeCapability", (8, 0), 132 * 2),
        ("nvmlDeviceGetCudaComputeCapability", (99, 0), None),  # a generation that is yet to come
        ("nvmlDeviceGetCudaComputeCapability", "9.0", None),
        ("nvmlDeviceGetNumGpuCores", 0, None),
        ("nvmlDeviceGetNumGpuCores", 1001, None),
    ],
)
def test_sms_of_a_whole_gpu_are_counted_from_its_cores(function: str, given: Any, sms: int | None) -> None:
    assert [gpu.sm_count for gpu in visible_gpus(None, FakeNvml(FIRST, broken=function, instead=given))] == [sms]


def test_without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert visible_gpus(None) == ()
