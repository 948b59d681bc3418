from __future__ import annotations

import resource

import pytest

from ebrl.errors import PlanError
from ebrl.resources import open_files


class Limits:
    """Those of the process, as far as it sees them."""

    def __init__(self, soft: int, hard: int) -> None:
        self.found = (soft, hard)

    def getrlimit(self, kind: int) -> tuple[int, int]:
        assert kind == resource.RLIMIT_NOFILE
        return self.found

    def setrlimit(self, kind: int, limits: tuple[int, int]) -> None:
        self.found = limits


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 4096), (1024, 4096)),  # is enough
        ((512, 4096), (756, 4096)),
        ((512, resource.RLIM_INFINITY), (756, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    ],
)
def test_the_limit_is_raised_as_far_as_needed(
    before: tuple[int, int], after: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(*before)
    monkeypatch.setattr(resource, "getrlimit", limits.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", limits.setrlimit)
    open_files.allow(100)
    assert limits.found == after


def test_too_many_for_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", Limits(256, 512).getrlimit)
    with pytest.raises(PlanError) as caught:
        open_files.allow(1000)
    assert caught.value.message == "1000 environments in one process need 5256 open files; this system allows 512"
    assert "replicas=" in caught.value.hint
