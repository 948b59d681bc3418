"""Runs that a script starts, with and without a main guard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from .conftest import WORKFLOWS, session_processes

LAUNCH = """
{guard}
    with ebrl.launch(small(iterations=1), run_dir={folder!r}) as run:
        for iteration in run:
            print("iteration", iteration.index)
"""


def _script(folder: Path, guard: str) -> Path:
    (folder / "rewards.py").write_text((WORKFLOWS.parent / "rewards.py").read_text())
    file = folder / "script.py"
    file.write_text(WORKFLOWS.read_text() + LAUNCH.format(guard=guard, folder=str(folder / "run")))
    return file


def test_a_script_without_a_guard_is_told_in_one_line(tmp_path: Path) -> None:
    script = _script(tmp_path, "if True:")
    run = subprocess.Popen(
        [sys.executable, script.name],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    output, _ = run.communicate(timeout=60)
    line = script.read_text().partition("    with ebrl.launch(small")[0].count("\n") + 1
    advice = 'every worker would start this run again; put it under `if __name__ == "__main__":`'
    assert output == f"error: script.py:{line}: {advice}\n"
    assert run.returncode == 2
    assert not (tmp_path / "run").exists()
    _, alive = psutil.wait_procs(session_processes(run.pid), timeout=5)
    assert not alive


def test_a_script_with_a_guard_runs(tmp_path: Path) -> None:
    script = _script(tmp_path, 'if __name__ == "__main__":')
    ended = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "iteration 0\n"), ended.stderr


def test_a_program_from_standard_input_runs(tmp_path: Path) -> None:
    program = _script(tmp_path, "if True:").read_text()
    ended = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "iteration 0\n"), ended.stderr
