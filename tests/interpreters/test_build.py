"""`create` with pins that name no package: everything but the download is real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ebrl.errors import EbrlError, UsageError
from ebrl.interpreters.build import create
from ebrl.interpreters.choose import interpreter_of
from ebrl.interpreters.python import find_python
from ebrl.interpreters.store import IsolatedEnvironment, existing, home

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
NOTHING = f"# python: {OWN}\n"


class Heard(list[str]):
    def __call__(self, text: str, passing: bool) -> None:
        if not passing:
            self.append(text)


def test_an_environment_is_used_once_it_is_complete(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    marker = create("mine", heard := Heard())
    environment = IsolatedEnvironment("mine")
    assert heard == [f"virtual environment of {sys.executable}"]
    assert marker == environment.marker()
    assert marker.python.startswith(f"{OWN}.") and marker.packages == {} and marker.size_mib > 0
    assert environment.folder.is_relative_to(home()) and existing() == ["mine"]
    chosen = interpreter_of("mine")
    assert (chosen.python, chosen.version) == (str(environment.python), sys.version_info[:2])
    assert (chosen.remedy, chosen.notice) == ("", "")

    create("mine", heard := Heard())
    assert heard == ["it is there already"]


def test_changed_pins_are_told_and_built_by_the_next_create(backend: Callable[..., Path]) -> None:
    file = backend("mine", NOTHING)
    create("mine", Heard())
    file.write_text(f"# python: {OWN}, 3.99\n")
    chosen = interpreter_of("mine")
    assert chosen.python is not None
    assert chosen.notice == "the pins of mine changed since its environment was made: ebrl env create mine"
    create("mine", heard := Heard())
    assert heard[0] == "its pins changed: made anew"
    assert interpreter_of("mine").notice == ""


def test_a_step_that_fails_shows_its_last_lines_and_leaves_nothing_that_is_used(backend: Callable[..., Path]) -> None:
    file = backend("mine", f"# python: {OWN}\n# options: --no-index\n/nowhere/at-all-1.0.whl\n")
    with pytest.raises(EbrlError, match="failed with exit code") as caught:
        create("mine", Heard())
    assert "/nowhere/at-all-1.0.whl" in caught.value.detail
    log = IsolatedEnvironment("mine").log
    assert caught.value.hint == f"the whole log: {log}" and log.is_file()
    assert IsolatedEnvironment("mine").marker() is None and interpreter_of("mine").python is None
    file.write_text(NOTHING)
    create("mine", heard := Heard())
    assert heard[0] == "what an interrupted attempt left is removed"
    assert interpreter_of("mine").python is not None


_CREATE = """
import sys
from ebrl.backends import registry
point = registry.EntryPoint("mine", "mine_adapter:Mine", registry.SIMULATORS)
registry._installed = lambda group: {"mine": point}
from ebrl.interpreters.build import create
create("mine", lambda text, passing: passing or print(text, flush=True))
"""


def test_a_killed_create_is_never_used(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    process = subprocess.Popen([sys.executable, "-c", _CREATE], stdout=subprocess.PIPE, text=True)
    environment = IsolatedEnvironment("mine")
    deadline_s = time.monotonic() + 30
    while not (environment.folder / "pyvenv.cfg").exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert environment.marker() is None and interpreter_of("mine").python is None
    create("mine", heard := Heard())
    assert heard[0] == "what an interrupted attempt left is removed"
    assert environment.marker() is not None


def test_a_second_process_says_that_it_waits(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    with IsolatedEnvironment("mine").locked(lambda text: None):
        process = subprocess.Popen([sys.executable, "-c", _CREATE], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == f"process {os.getpid()} works on mine: waiting for it\n"
    assert "virtual environment" in process.communicate()[0]
    assert process.returncode == 0
    assert IsolatedEnvironment("mine").marker() is not None


def test_removing_tells_what_it_freed(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    size_mib = create("mine", Heard()).size_mib
    environment = IsolatedEnvironment("mine")
    assert environment.remove() in (size_mib, size_mib + 1)
    assert not environment.folder.exists() and existing() == []
    assert environment.remove() == 0


def test_a_backend_without_pins_is_refused(backend: Callable[..., Path]) -> None:
    backend("bare", None)
    with pytest.raises(UsageError, match="the backend 'bare' ships no pins"):
        create("bare", Heard())


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of an environment"):
        IsolatedEnvironment(name)


def test_this_python_is_preferred_and_one_that_is_nowhere_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_python(["3.99", OWN]) == sys.executable
    monkeypatch.setattr("ebrl.interpreters.python.uv", lambda: None)
    with pytest.raises(UsageError, match=r"no Python 3.99 is found on this machine"):
        find_python(["3.99"])
