"""What a resume may do to the earlier run: nothing before it gets anywhere, and only one at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ebrl
from ebrl.errors import CheckpointError, EbrlError, UsageError
from ebrl.graph.load import load_workflow

from .conftest import WORKFLOWS, ebrl_run, wait_for_iterations

SIZED = f"{WORKFLOWS.parent / 'sized.py'}:sized"


def run(*settings: str, **options: Any) -> dict[str, Any]:
    with ebrl.launch(load_workflow(SIZED).with_settings(list(settings)), **options) as running:
        for _ in running:
            pass
    assert running.summary is not None
    return running.summary


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and path.parent.name != "logs"
    }


@pytest.mark.slow
def test_a_resume_that_does_not_fit_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(run_dir=folder, schedule="sync")
    before = contents(folder)

    with pytest.raises(CheckpointError, match="num_envs is 2, the checkpoint keeps where 4 environments stood"):
        run("num_envs=2", "iterations=4", resume=folder, schedule="sync")
    assert contents(folder) == before

    with pytest.raises(CheckpointError, match="belongs to workflow 'sized', not to 'small'"):
        ebrl.launch(load_workflow(f"{WORKFLOWS}:small")(), resume=folder).__enter__()
    assert contents(folder) == before

    with pytest.raises(EbrlError, match="these weights do not fit") as caught:
        run("hidden=32", "iterations=4", resume=folder)
    assert caught.value.hint.endswith("these parameters changed: hidden from 16 to 32, iterations from 2 to 4")
    assert contents(folder) == before

    assert run("iterations=3", resume=folder, schedule="sync")["iterations"] == 3
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [0, 1, 2]


def test_a_run_is_used_once_and_inside_its_block(tmp_path: Path) -> None:
    seen = []
    with ebrl.launch(load_workflow(SIZED).with_settings(["iterations=4"]), run_dir=tmp_path / "run") as running:
        for iteration in running:
            seen.append(iteration.index)
            if iteration.index == 1:
                break
        seen += [iteration.index for iteration in running]
    assert seen == [0, 1, 2, 3], "a second loop goes on where the first was left"
    assert running.summary is not None and running.summary["status"] == "finished"
    assert running.run_dir == tmp_path / "run" and running.plan.workflow == "sized"
    with pytest.raises(UsageError, match="this run has ended with its `with` block"):
        next(iter(running))
    with pytest.raises(UsageError, match="this run was started before"):
        running.__enter__()


@pytest.mark.slow
def test_a_directory_in_use_is_refused_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = ebrl_run(f"{WORKFLOWS}:slow", "--run-dir", str(folder), cwd=tmp_path)
    try:
        wait_for_iterations(folder, 1, first)
        for arguments in (["--resume", str(folder)], [f"{WORKFLOWS}:slow", "--run-dir", str(folder)]):
            second = ebrl_run(*arguments, cwd=tmp_path)
            output, _ = second.communicate(timeout=60)
            assert second.returncode == 2
            assert output.startswith(f"error: the run directory {folder} is in use by process {first.pid} on ")
    finally:
        first.terminate()
    output, _ = first.communicate(timeout=60)
    assert first.returncode == 130, output
    assert json.loads((folder / "summary.json").read_text())["status"] == "interrupted"
