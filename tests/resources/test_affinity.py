from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from ebrl.resources import affinity


@pytest.fixture(autouse=True)
def not_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "_warned", False)


needs_affinity = pytest.mark.skipif(not affinity.supported(), reason="needs affinity masks")

CHILD = """
import threading, sys
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(3)]
for thread in threads: thread.start()
print("ready", flush=True)
sys.stdin.read()
stop.set()
"""


@needs_affinity
def test_all_threads_of_a_process_are_bound() -> None:
    core = max(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert affinity.bind(child.pid, [core])
        threads = [int(name) for name in os.listdir(f"/proc/{child.pid}/task")]
        assert len(threads) == 4
        assert all(os.sched_getaffinity(thread) == {core} for thread in threads)
        child.communicate()


@needs_affinity
def test_a_process_that_has_ended_is_no_error() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert affinity.bind(child.pid, [0])


def refuse(*_: object) -> None:
    raise PermissionError("Operation not permitted")


@pytest.mark.parametrize("fault", ["refused", "unsupported"])
def test_degrades_with_one_warning(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "refused":
        monkeypatch.setattr(os, "sched_setaffinity", refuse, raising=False)
    else:
        monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with pytest.warns(RuntimeWarning, match="they run unpinned") as caught:
        assert not affinity.bind(os.getpid(), [0])
        assert not affinity.bind(os.getpid(), [0])
    assert len(caught) == 1
    assert not affinity.supported()


@needs_affinity
def test_a_core_that_does_not_exist_degrades_too() -> None:
    with pytest.warns(RuntimeWarning, match="they run unpinned"):
        assert not affinity.bind(os.getpid(), [100_000])
