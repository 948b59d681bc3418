"""A run that is confined to one core, as by a job scheduler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import WORKFLOWS

taskset = shutil.which("taskset")


@pytest.mark.skipif(taskset is None, reason="needs taskset")
def test_it_plans_with_that_core_and_ends(tmp_path: Path) -> None:
    assert taskset is not None
    core, folder = max(os.sched_getaffinity(0)), tmp_path / "run"
    command = [sys.executable, "-m", "ebrl", "run", f"{WORKFLOWS}:small", "--set", "iterations=3"]
    done = subprocess.run(
        [taskset, "-c", str(core), *command, "--run-dir", str(folder)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads((folder / "plan.json").read_text())
    assert {tuple(stage["quota"]["cores"]) for stage in plan["stages"]} == {(core,)}
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 3
    last = rows[-1]
    assert last["generate/batch_size"] >= 1 and last["generate/compute_ms"] > 0 and last["generate/wait_ms"] >= 0
