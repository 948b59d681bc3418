"""`create` with pins that name no package: everything but the download is real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
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
    chosen = interpreter_of("mine")
    assert environment.marker() is None and chosen.python is None
    assert chosen.notice == "the environment of mine is half-built and not used: ebrl env create mine"
    create("mine", heard := Heard())
    if heard[0].startswith("process"):  # what the killed one had started still worked on it
        del heard[0]
    assert heard[0] == "what an interrupted attempt left is removed"
    assert environment.marker() is not None


def _at_work_in(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [""])[0].startswith(f"{folder}/") and process.status() != psutil.STATUS_ZOMBIE
    ]


def test_an_interrupted_create_ends_what_it_has_started(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    process = subprocess.Popen([sys.executable, "-c", _CREATE], stderr=subprocess.PIPE)
    folder, deadline_s = IsolatedEnvironment("mine").folder, time.monotonic() + 30
    while not _at_work_in(folder):  # installs pip
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate()[1]
    _, alive = psutil.wait_procs(_at_work_in(folder), timeout=0.5)
    assert not alive
    create("mine", heard := Heard())
    assert heard[0] == "what an interrupted attempt left is removed"
    assert IsolatedEnvironment("mine").marker() is not None


def test_a_folder_in_which_somebody_still_writes_is_removed(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    create("mine", Heard())
    folder = IsolatedEnvironment("mine").folder
    writer = "for number in range(300):\n try: open(f'{number}', 'w').close()\n except OSError: pass"
    with subprocess.Popen([sys.executable, "-c", writer], cwd=folder):
        IsolatedEnvironment("mine").remove()
    assert not folder.exists()


def test_what_cannot_be_removed_is_told(backend: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder / "bin"))

    folder = IsolatedEnvironment("mine").folder
    folder.mkdir(parents=True)
    monkeypatch.setattr("ebrl.interpreters.store.shutil.rmtree", refuse)
    with pytest.raises(EbrlError, match=f"{folder} cannot be removed: .*Permission denied: '{folder}/bin'"):
        IsolatedEnvironment("mine").remove()


def test_a_second_process_says_that_it_waits(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    with IsolatedEnvironment("mine").locked(lambda text: None):
        process = subprocess.Popen([sys.executable, "-c", _CREATE], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert (
            process.stdout.readline() == f"process {os.getpid()}, or what it started, works on mine: waiting for it\n"
        )
    assert "virtual environment" in process.communicate()[0]
    assert process.returncode == 0
    assert IsolatedEnvironment("mine").marker() is not None


def test_what_a_killed_create_has_started_still_holds_the_environment(
    backend: Callable[..., Path], tmp_path: Path
) -> None:
    environment, release = IsolatedEnvironment("mine"), tmp_path / "release"
    child = (
        "import subprocess, sys\n"
        "from ebrl.interpreters import build\nfrom ebrl.interpreters.store import IsolatedEnvironment\n"
        "with IsolatedEnvironment('mine').locked(print) as lock, open(sys.argv[1], 'w') as log:\n"
        "    say = lambda text, passing: print(text, flush=True)\n"
        "    wait = 'echo installing; while [ ! -e \"$0\" ]; do sleep 0.02; done'\n"
        "    build._do(['sh', '-c', wait, sys.argv[2]], log, lock, say)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", child, str(tmp_path / "log"), str(release)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "installing\n"
    process.kill()
    heard: list[str] = []

    def waits(text: str) -> None:
        heard.append(text)
        release.touch()

    with environment.locked(waits):
        assert heard == [f"process {process.pid}, or what it started, works on mine: waiting for it"]
    process.communicate()


def _without_python(environment: IsolatedEnvironment) -> str:
    environment.python.unlink()
    environment.python.symlink_to("/nowhere/python")
    return f"its interpreter is gone: {environment.python}"


def _with_a_torn_marker(environment: IsolatedEnvironment) -> str:
    file = environment.folder / "ebrl.json"
    file.write_text(file.read_text()[:40])
    return f"{file} cannot be read"


def _with_an_odd_marker(environment: IsolatedEnvironment) -> str:
    file = environment.folder / "ebrl.json"
    file.write_text('{"pins": 1, "python": null, "packages": [], "size_mib": "", "created": ""}')
    return f"{file} cannot be read"


@pytest.mark.parametrize("damage", [_without_python, _with_a_torn_marker, _with_an_odd_marker])
def test_a_broken_environment_is_named_and_built_anew(
    backend: Callable[..., Path], damage: Callable[[IsolatedEnvironment], str]
) -> None:
    backend("mine", NOTHING)
    create("mine", Heard())
    fault = damage(IsolatedEnvironment("mine"))
    with pytest.raises(UsageError) as caught:
        interpreter_of("mine")
    assert caught.value.message == f"the environment of mine cannot be used: {fault}"
    assert caught.value.hint == "ebrl env create mine"
    create("mine", heard := Heard())
    assert heard[0] == f"{fault}: made anew"
    assert interpreter_of("mine").python is not None


def test_an_interpreter_that_does_not_start_is_built_anew(backend: Callable[..., Path]) -> None:
    backend("mine", NOTHING)
    create("mine", Heard())
    python = IsolatedEnvironment("mine").python
    python.unlink()
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    create("mine", heard := Heard())
    assert heard[0] == f"its interpreter does not start: {python}: made anew"


def test_a_folder_elsewhere_is_removed_with_the_link_to_it(backend: Callable[..., Path], tmp_path: Path) -> None:
    backend("mine", NOTHING)
    create("mine", Heard())
    environment, elsewhere = IsolatedEnvironment("mine"), tmp_path / "large disk"
    environment.folder.rename(elsewhere)
    environment.folder.symlink_to(elsewhere)
    assert environment.remove() > 0
    assert not environment.folder.is_symlink() and not elsewhere.exists()


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


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("{file}", "it is no folder"),
        ("{file}/below", "Not a directory"),
        ("{loop}", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("~nobody-of-that-name", "Could not determine home directory."),
    ],
)
def test_a_home_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str) -> None:
    file, loop = tmp_path / "file", tmp_path / "loop"
    file.touch()
    loop.symlink_to(loop)
    name = name.format(file=file, loop=loop)
    monkeypatch.setenv("EBRL_HOME", name)
    for use in (existing, lambda: IsolatedEnvironment("mine").marker(), lambda: interpreter_of("robosuite")):
        with pytest.raises(UsageError) as caught:
            use()
        assert caught.value.message == f"EBRL_HOME is {name}, which cannot be used: {fault}"
        assert caught.value.hint == "set EBRL_HOME to a folder that you may write to"


def test_a_home_that_nobody_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBRL_HOME", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    with pytest.raises(UsageError, match="which cannot be used: you may not read it"):
        existing()


def test_this_python_is_preferred_and_one_that_is_nowhere_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_python(["3.99", OWN]) == sys.executable
    monkeypatch.setattr("ebrl.interpreters.python.uv", lambda: None)
    with pytest.raises(UsageError, match=r"no Python 3.99 is found on this machine"):
        find_python(["3.99"])
