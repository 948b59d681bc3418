"""A run whose simulator lives in an interpreter of its own, made by `ebrl env create`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from ebrl.interpreters.store import IsolatedEnvironment


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_with_another_numpy_sees_the_same_trajectories(
    launch: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBRL_HOME", str(tmp_path / "home"))
    here = launch("small", "iterations=3", "max_staleness=0")
    done = subprocess.run(
        [sys.executable, "-m", "ebrl", "env", "create", "gymnasium"], capture_output=True, text=True, check=False
    )
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("no package registry")
    assert done.returncode == 0, done.stderr
    marker = IsolatedEnvironment("gymnasium").marker()
    assert marker is not None and marker.packages["numpy"] != np.__version__
    checked = subprocess.run(
        [sys.executable, "-m", "ebrl", "env", "check", "gymnasium"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert str(IsolatedEnvironment("gymnasium").python) in checked.stdout

    there = launch("small", "iterations=3", "max_staleness=0")
    assert there.metrics() == here.metrics()
    assert there.summary["status"] == "finished"
    assert there.of("warning") == []

    IsolatedEnvironment("gymnasium").complete(attrs.evolve(marker, pins="of an older release"))
    later = launch("small", "iterations=1")
    assert [event["message"] for event in later.of("warning")] == [
        "the pins of gymnasium changed since its environment was made: ebrl env create gymnasium"
    ]
