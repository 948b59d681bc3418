"""A run whose output nobody reads any more ends in order: a checkpoint, no traceback, no process."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

SLOW = Path(__file__).parent / "runtime" / "workflows" / "small.py"


def left_in_order(folder: Path, family: list[psutil.Process]) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert Path(summary["checkpoint"]).is_dir()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


@pytest.mark.slow
def test_a_closed_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ebrl", "run", f"{SLOW}:slow", "--run-dir", "run"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stderr is not None
    assert run.stdout.readline() == "slow, schedule ebrl\n"
    family = psutil.Process(run.pid).children(recursive=True)
    run.stdout.close()
    errors = run.stderr.read()
    assert run.wait(60) == 130
    assert errors.endswith(f"nobody reads the output; ebrl run --resume {tmp_path}/run continues\n")
    assert "Traceback" not in errors
    left_in_order(tmp_path / "run", family)


@pytest.mark.slow
def test_a_closed_terminal(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "ebrl", "run", f"{SLOW}:slow", "--run-dir", "run"])
    metrics = tmp_path / "run" / "metrics.jsonl"
    os.set_blocking(terminal, False)
    deadline_s = time.monotonic() + 60
    while not metrics.exists() or not metrics.read_text():
        with contextlib.suppress(OSError):
            os.read(terminal, 1 << 16)
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    family = psutil.Process(pid).children(recursive=True)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    left_in_order(tmp_path / "run", family)
