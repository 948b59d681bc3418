"""Backends and interpreters for tests: a home of their own, pins without packages, a venv that holds numpy only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ebrl.backends import registry
from ebrl.interpreters.store import IsolatedEnvironment

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EBRL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "home"


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str | None], Path]]:
    """Makes a backend of somebody else: a module, and beside it its pins; returns the file of these."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{TESTS}")  # for environment processes in this interpreter
    before = dict(registry._registered[registry.SIMULATORS])

    def make(name: str, pins: str | None) -> Path:
        module = folder / f"{name}_adapter.py"
        module.write_text("from bad_envs.counting import Counting as Mine\n")
        file = module.with_suffix(".txt")
        if pins is not None:
            file.write_text(pins)
        point = registry.EntryPoint(name, f"{name}_adapter:Mine", registry.SIMULATORS)
        installed = registry._installed(registry.SIMULATORS)
        monkeypatch.setattr(registry, "_installed", lambda group: installed | {name: point})
        return file

    yield make
    registry._registered[registry.SIMULATORS] = before


def bare_environment(name: str, python: str = sys.executable) -> IsolatedEnvironment:
    """A virtual environment with this interpreter's numpy and nothing else; not complete."""
    environment = IsolatedEnvironment(name)
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment.folder)], check=True)
    [packages] = environment.folder.glob("lib/python*/site-packages")
    for path in Path(np.__file__).parents[1].glob("numpy*"):
        (packages / path.name).symlink_to(path)
    return environment
