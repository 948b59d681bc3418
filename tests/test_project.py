"""The project files agree with one another and with the tree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPED = PROJECT["tool"]["setuptools"]["package-dir"]


def test_every_package_of_the_tree_is_installed() -> None:
    found = set()
    for name, folder in MAPPED.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join((name, *init.parent.relative_to(ROOT / folder).parts)))
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_types_are_found_under_the_import_names() -> None:
    for name, folder in MAPPED.items():
        if name != "ebrl":
            assert (ROOT / "typings" / name.replace(".", "/")).resolve() == (ROOT / folder).resolve()


def test_entry_points_name_modules_of_the_tree() -> None:
    for group in PROJECT["project"]["entry-points"].values():
        for target in group.values():
            module = target.partition(":")[0].split(".")
            folder = ROOT / MAPPED[".".join(module[:2])]
            assert folder.joinpath(*module[2:]).with_suffix(".py").is_file(), target


def test_constraints_cover_the_dependencies_with_exact_versions() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    assert not [line for line in lines if "+" in line or "/" in line], "no local builds, no paths"
    assert (pinned["torch"], pinned["mujoco"], pinned["robosuite"]) == ("2.13.0", "3.9.0", "1.5.2")
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(name for extra in extras.values() for name in extra)]
    names = {_normal(re.split(r"[\[<>=;]", requirement)[0]) for requirement in wanted} - {"ebrl"}
    assert names <= {_normal(name) for name in pinned}


def test_readme_opens_with_the_two_commands_and_ci_runs_the_second() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks[0].splitlines()[-1] == "ebrl run workflows/lift_ppo.py"
    commands = [line for line in blocks[1].splitlines() if "venv" not in line]
    ci = (ROOT / ".ci" / "run").read_text().replace("pip install -q ", "pip install ").splitlines()
    assert [line for line in ci if line in commands] == commands


@pytest.mark.slow
def test_wheel_holds_the_mapped_folders(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    # A copy: building leaves folders in the source tree, and the tree may be read-only.
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py", "*.typed", "*.toml", "*.md", "*.json", "LICENSE"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    build = "import setuptools.build_meta as b; print(b.build_wheel('out'))"
    (tmp_path / "out").mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True, timeout=100)
    import zipfile

    [wheel] = (tmp_path / "out").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"ebrl/py.typed", "ebrl/backends/protocols.py", "ebrl/stages/__init__.py"} <= names
    assert {"ebrl/workflows/__init__.py", "ebrl/profiles/__init__.py"} <= names


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
