from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ebrl.resources.gpus import Gpu, visible_gpus

FIRST, SECOND, THIRD = "GPU-8932f937-d72c", "GPU-1111aaaa-0000", "GPU-8932ffff-0000"
SLICES = ("MIG-aaaa-1", "MIG-bbbb-2")


class NotSupported(Exception):
    pass


class FakeNvml:
    """Devices by UUID, some of them partitioned; `broken` names calls that fail."""

    def __init__(self, *uuids: str, mig: dict[str, tuple[str, ...]] | None = None, broken: str = "") -> None:
        self.uuids, self.mig, self.broken = uuids, mig or {}, broken

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name == object.__getattribute__(self, "broken"):
            return self._fail
        return object.__getattribute__(self, name)

    def _fail(self, *_: Any) -> Any:
        raise NotSupported

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


def test_every_field_is_optional() -> None:
    whole = Gpu(uuid=FIRST, index=0, name="Fake", memory_mib=80 << 10)
    assert visible_gpus(None, FakeNvml(FIRST)) == (whole,)
    (nameless,) = visible_gpus(None, FakeNvml(FIRST, broken="nvmlDeviceGetName"))
    assert (nameless.name, nameless.memory_mib) == (None, 80 << 10)
    (bare,) = visible_gpus(None, FakeNvml(FIRST, broken="nvmlDeviceGetMemoryInfo"))
    assert (bare.name, bare.memory_mib) == ("Fake", None)


@pytest.mark.parametrize(
    "broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"]
)
def test_a_driver_that_fails_means_no_gpu(broken: str) -> None:
    assert visible_gpus(None, FakeNvml(FIRST, broken=broken)) == ()
