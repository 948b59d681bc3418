from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ebrl.runtime.scratch import scratch_folder

HOLD = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from ebrl.runtime.scratch import scratch_folder
with scratch_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_with_the_block(temporary: Path) -> None:
    with scratch_folder() as folder:
        (Path(folder) / "below").mkdir()
        assert Path(folder).parent == temporary
    assert not list(temporary.iterdir())


def test_the_folder_of_a_killed_driver_goes_with_the_next_run(temporary: Path) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(temporary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    left = Path(driver.stdout.readline().strip())
    foreign = temporary / "ebrl-data"
    foreign.mkdir()
    with scratch_folder():
        assert left.is_dir(), "its driver lives"
    driver.kill()
    driver.communicate()
    assert left.is_dir()
    with scratch_folder():
        assert not left.exists()
        assert foreign.is_dir(), "not made by a driver"
