"""`ebrl env`, with pins that name no package; the real ones are in `tests/runtime/test_isolated_run.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebrl.backends import registry
from ebrl.cli import app
from ebrl.interpreters.store import IsolatedEnvironment

TESTS = Path(__file__).parent
ALIASING = """
import numpy as np
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Observation, Step

class MySim:
    spec = SimulatorSpec(observation={"x": Space((1,))}, action=Space((1,), low=-1.0, high=1.0))

    def __init__(self, target):
        self.x = np.zeros(1, np.float32)

    def reset(self, seed):
        self.x[:] = np.random.default_rng(seed).normal()
        return Observation(x=self.x)

    def step(self, action):
        self.x += np.clip(action, -1.0, 1.0)
        return Step(Observation(x=self.x), 1.0, False, False)

    def close(self):
        pass
"""
NOTHING = f"# python: 3.{sys.version_info[1]}\n# check: anything\n"


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Makes a backend `mine` of the given class line and pins; returns the file of these."""
    monkeypatch.setenv("EBRL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{TESTS}")
    point = registry.EntryPoint("mine", "my_adapter:Mine", registry.SIMULATORS)
    monkeypatch.setattr(registry, "_installed", lambda group: {"mine": point})

    def make(source: str, pins: str = NOTHING) -> Path:
        (tmp_path / "my_adapter.py").write_text(source)
        (tmp_path / "my_adapter.txt").write_text(pins)
        return tmp_path / "my_adapter.txt"

    return make


def env(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["env", *arguments])


def test_create_list_remove(backend: Callable[..., Path]) -> None:
    pins = backend("from bad_envs.counting import Counting as Mine")
    assert "mine  none, runs in the interpreter of ebrl or: ebrl env create mine" in env("list").output
    assert env("create", "mine").exit_code == 0
    assert "mine  ready  " in env("list").output
    pins.write_text(NOTHING + "numpy==1.26.4\n")
    assert "mine  outdated, its pins changed: ebrl env create mine" in env("list").output
    (IsolatedEnvironment("mine").folder / "ebrl.json").unlink()
    assert "mine  half-built: ebrl env create mine" in env("list").output
    assert env("remove", "mine").stdout.startswith("mine: freed ")
    assert env("remove", "mine").stdout == "mine: there was none, nothing to free\n"


def test_remove_knows_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBRL_HOME", str(tmp_path))
    misspelt = env("remove", "robosuit")
    assert misspelt.exit_code == 2 and "no simulator backend is named 'robosuit'" in misspelt.output
    assert list(tmp_path.rglob("*.lock")) == []


def test_a_home_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("EBRL_HOME", str(tmp_path / "home"))
    for command in (("create", "gymnasium"), ("list",), ("remove", "gymnasium"), ("check", "gymnasium:Pendulum-v1")):
        refused = env(*command)
        assert refused.exit_code == 2
        assert "which cannot be used: it is no folder" in refused.output and "set EBRL_HOME" in refused.output


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which even root can make none")
def test_a_home_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBRL_HOME", "/proc/self/ebrl")
    refused = env("create", "gymnasium")
    assert refused.exit_code == 2
    assert "environments cannot be kept in" in refused.output and "set EBRL_HOME" in refused.output


def test_check_tells_what_an_environment_needs_and_shows(backend: Callable[..., Path]) -> None:
    backend("from bad_envs.showing import Showing as Mine")
    done = env("check", "mine")
    assert done.exit_code == 0, done.output
    found = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if not line.startswith("observation"))
    assert found["simulator"] == "mine:anything"
    assert found["interpreter"].startswith(sys.executable)
    assert "numpy" in found["versions"]
    assert "of which import" in found["start"]
    assert found["action"] == "float32 (1,) in -1 .. 1"
    assert (found["control"], found["episode"], found["instruction"]) == ("20 Hz", "50 steps at most", "'stack'")
    assert "median" in found["step"] and "P99" in found["step"] and "ms" in found["reset"]
    assert found["image"].startswith("4 x 6 x 3 uint8, rendered in ")
    observations = {line.split(maxsplit=2)[1:][0]: line.split(maxsplit=2)[2] for line in done.stdout.splitlines()
                    if line.startswith("observation")}  # fmt: skip
    assert found["contract"] == "19 of 19 rules kept, 0 not to be tried here"
    assert observations == {"state": "float32 (4,)", "task": "text 'stack'"}


def test_check_names_the_rules_that_a_simulator_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any factory, by its Python name."""
    (tmp_path / "my_package.py").write_text(ALIASING)
    monkeypatch.chdir(tmp_path)
    done = env("check", "my_package:MySim")
    assert done.exit_code == 1
    assert "own-arrays: observation 'x' of reset() shares its memory with the next one" in done.stdout
    assert "15 of 19 rules kept, 2 not" in done.stdout


def test_check_without_anything_to_render(backend: Callable[..., Path]) -> None:
    backend("from bad_envs.counting import Counting as Mine")
    done = env("check", "mine:other?lengths=[7]")
    assert done.exit_code == 0, done.output
    assert "image" in done.stdout and "none: nothing is rendered" in done.stdout


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        (
            "import no_such_simulator",
            2,
            "error: mine:anything: the simulator cannot be imported in this interpreter: No module named 'no_",
        ),
        (
            "def Mine(target): raise RuntimeError('libEGL.so.1: cannot open shared object file')",
            1,
            "  hint: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri (software rendering on the CPU), and set "
            "MUJOCO_GL=egl\n",
        ),
        ("import no_such_simulator", 2, "\n  hint: ebrl env create mine\n"),
        ("def Mine(target): raise RuntimeError('vk::createInstance: ErrorIncompatibleDriver')", 1, "mesa-vulkan-driv"),
        ("def Mine(target): input('Do you accept? ')", 1, "the simulator asks a question when it starts"),
        ("from bad_envs.failing_reset import FailingReset as Mine", 1, "error: mine:anything: "),
        ("def Mine(target): raise OSError", 1, "error: mine:anything: OSError\n"),
    ],
)  # fmt: skip
def test_check_says_what_is_missing(backend: Callable[..., Path], source: str, code: int, said: str) -> None:
    backend(source)
    done = env("check", "mine")
    assert done.exit_code == code, done.output
    assert said in done.stderr


def test_check_needs_a_target_and_a_backend(backend: Callable[..., Path]) -> None:
    backend("from bad_envs.counting import Counting as Mine", "")
    done = env("check", "mine")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: what of mine is to be tried?\n  hint: ebrl env check mine:TARGET\n",
    )
    done = env("check", "mein")
    assert done.exit_code == 2 and "did you mean 'mine'?" in done.stderr
    assert env("create", "mein").exit_code == 2
