"""Environment processes in interpreters that know nothing of ebrl."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import ebrl
from ebrl.errors import SimulatorNotFound
from ebrl.graph.items import ActionChunk, Step
from ebrl.interpreters.python import _version
from ebrl.runtime.order import EnvironmentOrder

from ..runtime.playing import Play, order, same
from .conftest import bare_environment

ROOT = Path(ebrl.__file__).parents[1]
LIGHT = (
    "ebrl/__init__.py", "ebrl/errors.py", "ebrl/graph/__init__.py", "ebrl/graph/items.py",
    "ebrl/interpreters/bootstrap.py", "ebrl/runtime/__init__.py", "ebrl/runtime/birth.py", "ebrl/runtime/child.py",
    "ebrl/runtime/contract.py", "ebrl/runtime/failure.py", "ebrl/runtime/seeding.py", "ebrl/runtime/slots.py",
    "ebrl/runtime/wire.py", "backends/__init__.py", "backends/protocols.py", "backends/simulators/__init__.py",
    "ebrl/runtime/warm_child.py",
    *sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "backends/simulators").glob("*.py")),
    *sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "backends/conformance").glob("*.py")),
)  # fmt: skip
OLDEST_NUMPY = {"3.8": "1.24.4", "3.9": "1.26.4", "3.10": "1.26.4"}


@pytest.mark.parametrize("file", LIGHT)
def test_what_environment_processes_import_is_python_3_8(file: str) -> None:
    ast.parse((ROOT / file).read_text(), feature_version=(3, 8))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """This Python with numpy and nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EBRL_HOME", str(tmp_path_factory.mktemp("home")))
        yield str(bare_environment("bare").python)


def elsewhere(python: str, simulator: str = "counting.Counting", **options: object) -> EnvironmentOrder:
    light = {"module": "ebrl.runtime.birth", "name": "execute"}
    return attrs.evolve(order(simulator, **options), python=python, program=light)


def batch(simulator: EnvironmentOrder) -> list[ebrl.Trajectory]:
    with Play(simulator, num_envs=2, num_steps=8, settings={"in_order": True}) as play:
        return play.batch()


def test_trajectories_are_those_of_this_interpreter(bare: str) -> None:
    assert same(batch(elsewhere(bare)), batch(order("counting.Counting")))


def test_nothing_of_this_installation_gets_in(bare: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "intruder.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with Play(elsewhere(bare, "surroundings.Imports", names=["attrs", "dask", "torch", "intruder"])) as play:
        play.at_rest()
        assert play.rollout.spec is not None
        assert play.rollout.spec.extra["imports"] == {"attrs": False, "dask": False, "torch": False, "intruder": False}
        assert play.rollout.spec.extra["python"] == bare


def test_a_stage_of_ones_own_travels_by_value(bare: str) -> None:
    import cloudpickle

    factor = 3.0

    def thrice(env: ebrl.Simulator, chunk: ActionChunk) -> Iterator[Step]:
        for action in chunk:
            yield env.step(action * factor)

    program = {"pickle": cloudpickle.dumps(thrice).hex()}
    with Play(attrs.evolve(elsewhere(bare), program=program)) as play:
        (trajectory,) = play.batch()
    sums = trajectory.actions[:, 0, 0].cumsum() * factor
    assert trajectory.observations["state"][1:, 3].tolist() == sums.tolist()


def test_arrays_in_options_and_spec_travel(bare: str) -> None:
    import numpy as np

    table = np.arange(6, dtype=np.int16).reshape(2, 3)
    with Play(elsewhere(bare, "surroundings.Table", table=table, one=np.float32(0.5))) as play:
        play.at_rest()
        assert play.rollout.spec is not None
        found = play.rollout.spec.extra
    assert found["table"].dtype == np.int16 and found["table"].tolist() == table.tolist()
    assert found["one"] == 0.5 and type(found["one"]) is np.float32


def test_a_spec_that_only_the_simulator_could_read_is_named(bare: str) -> None:
    with Play(elsewhere(bare, "surroundings.Private")) as play, pytest.raises(ebrl.EbrlError) as caught:
        play.at_rest()
    assert caught.value.message.startswith("bad:Private: the spec of bad:Private cannot be read here: ")
    assert caught.value.hint == "a spec holds plain values and numpy arrays only"


@pytest.mark.parametrize("simulator", ["surroundings.Missing", "missing.Missing"])
def test_a_missing_package_is_the_users_to_mend(simulator: str) -> None:
    wanted = attrs.evolve(order(simulator), remedy="ebrl env create mine")
    with Play(wanted) as play, pytest.raises(SimulatorNotFound) as caught:
        play.at_rest()
    assert caught.value.hint == "ebrl env create mine"
    assert "no_such_simulator" in caught.value.message + caught.value.detail


def _old_pythons() -> dict[str, str]:
    found = {}
    for version in OLDEST_NUMPY:
        for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
            if _version(str(path)) == version:
                found[version] = str(path)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDEST_NUMPY)
def test_old_pythons_with_an_old_numpy(version: str, tmp_path: Path) -> None:
    if (base := _old_pythons().get(version)) is None:
        pytest.skip(f"no Python {version} on this machine")
    subprocess.run([base, "-m", "venv", str(tmp_path / "old")], check=True)
    python = str(tmp_path / "old" / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", f"numpy=={OLDEST_NUMPY[version]}"]
    if subprocess.run(install, capture_output=True, timeout=150, check=False).returncode:
        pytest.skip("no package registry")
    assert same(batch(elsewhere(python)), batch(order("counting.Counting")))
    assert sys.version_info[:2] != tuple(map(int, version.split(".")))


def test_what_a_simulator_spawns_there_finds_it(bare: str) -> None:
    with Play(elsewhere(bare, "offspring.Spawned"), num_envs=2, num_steps=3) as play:
        assert len(play.batch()) == 2 and not play.lost
