from __future__ import annotations

import enum
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from ebrl.errors import UsageError
from ebrl.graph.model import Graph
from ebrl.observe.run_directory import RunConfig, RunDirectory, restored_parameters

CONFIG = RunConfig(workflow="reach", file="/flows/reach.py", parameters={"num_envs": 4}, seed=3)


def test_default_path_names_workflow_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = RunDirectory.create(CONFIG), RunDirectory.create(CONFIG)
    assert first.path.parent == tmp_path / "runs"
    assert first.path.name.startswith("reach-")
    assert first.path != second.path, "two runs in the same second"
    assert first.checkpoints.is_dir()
    assert first.config == CONFIG
    assert first.summary is None


def test_config_of_a_graph_names_its_file_and_what_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.touch()
    config = RunConfig.of(Graph(name="flow", place=f"{file}:12", parameters={"a": 1}), seed=1, schedule="sync")
    assert (config.file, config.workflow, config.parameters) == (str(file), "flow", {"a": 1})
    assert {"python", "dask", "torch"} <= set(config.versions)
    assert RunConfig.of(Graph(name="flow", place="<stdin>:1"), seed=1, schedule="sync").file == ""


def test_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    run = RunDirectory.create(CONFIG, tmp_path / "run")
    run.write_summary({"status": "finished"})
    with pytest.raises(UsageError) as error:
        RunDirectory.create(CONFIG, tmp_path / "run")
    assert str(error.value) == (
        f"error: {tmp_path}/run holds a finished run, which is not overwritten\n"
        f"  hint: choose another --run-dir, or continue that run: ebrl run --resume {tmp_path}/run"
    )
    assert run.summary == {"status": "finished"}


def test_unfinished_run_is_not_overwritten(tmp_path: Path) -> None:
    RunDirectory.create(CONFIG, tmp_path)
    with pytest.raises(UsageError, match="has not finished"):
        RunDirectory.create(CONFIG, tmp_path)


def test_folder_with_a_log_file_in_it_is_fine(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("started by nohup")
    assert RunDirectory.create(CONFIG, tmp_path).config == CONFIG


def test_file_instead_of_folder(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(UsageError, match="is a file"):
        RunDirectory.create(CONFIG, tmp_path / "run")
    with pytest.raises(UsageError, match="cannot be written"):
        RunDirectory.create(CONFIG, tmp_path / "run" / "below")


def test_resume_of_an_unknown_run_names_the_known_ones(tmp_path: Path) -> None:
    RunDirectory.create(CONFIG, tmp_path / "reach-1")
    with pytest.raises(UsageError) as error:
        RunDirectory.reopen(tmp_path / "reach-2")
    assert error.value.message == f"{tmp_path}/reach-2 is no run directory: it does not exist"
    assert error.value.hint == f"runs in {tmp_path}: reach-1"
    with pytest.raises(UsageError, match=r"it has no config\.json"):
        RunDirectory.reopen(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"workflow": '])
def test_damaged_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"config\.json is damaged"):
        RunConfig.read(tmp_path)


def test_config_of_a_newer_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**attrs.asdict(CONFIG), "invented_later": 1}))
    assert RunConfig.read(tmp_path) == CONFIG


def test_reopen_drops_what_runs_again_and_cut_lines(tmp_path: Path) -> None:
    run = RunDirectory.create(CONFIG, tmp_path)
    rows = "".join(f'{{"iteration": {n}}}\n' for n in range(1, 8))
    run.metrics_file.write_text(rows + '{"iteration": 8, "succ')
    (tmp_path / "events.jsonl").write_text('{"kind": "started"}\n{"ki')
    run.write_summary({"status": "interrupted"})
    assert RunDirectory.reopen(tmp_path, iteration=5).summary is None
    assert [json.loads(line)["iteration"] for line in run.metrics_file.read_text().splitlines()] == [1, 2, 3, 4, 5]
    assert (tmp_path / "events.jsonl").read_text() == '{"kind": "started"}\n'


def test_reopen_keeps_changed_parameters_for_the_next_resume(tmp_path: Path) -> None:
    RunDirectory.create(CONFIG, tmp_path)
    changed = attrs.evolve(CONFIG, parameters={"num_envs": 16})
    assert RunDirectory.reopen(tmp_path, config=changed).config == changed
    assert RunDirectory.reopen(tmp_path).config == changed


def test_summary_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A process that dies in the middle of the write leaves the old summary and no other file of that name."""
    run = RunDirectory.create(CONFIG, tmp_path)
    run.write_summary({"status": "old"})
    script = (
        "import os, sys; from pathlib import Path; from ebrl.observe import records\n"
        "records.os.replace = lambda *paths: os._exit(9)\n"
        "records.write_json(Path(sys.argv[1]), {'status': 'new'})"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(run.summary_file)], env=dict(os.environ), timeout=60)
    assert killed.returncode == 9
    assert run.summary == {"status": "old"}
    assert [path.name for path in tmp_path.glob("summary*")] == ["summary.json"]


def test_failed_write_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory.create(CONFIG, tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run.write_summary({"status": "finished"})
    assert run.summary is None
    assert not list(tmp_path.glob(".summary*"))


class Arm(enum.Enum):
    LEFT = 1


def test_parameters_come_back_in_their_types(tmp_path: Path) -> None:
    def flow(
        hidden: tuple[int, ...],
        limit: float,
        arm: Arm,
        data: Path,
        names: list[str],
        task: str,
        seed: int | None = None,
    ) -> None: ...

    given = {
        "hidden": (64, 64), "limit": math.inf, "arm": Arm.LEFT, "data": Path("a/b"), "names": ["x"], "task": "inf",
        "seed": None,
    }  # fmt: skip
    config = RunConfig.of(Graph(name="flow", parameters=given), seed=0, schedule="ebrl")
    stored = RunDirectory.create(config, tmp_path).config.parameters
    assert restored_parameters(flow, stored) == given


def test_parameter_that_the_workflow_no_longer_has() -> None:
    def flow(num_envs: int) -> None: ...

    with pytest.raises(UsageError) as error:
        restored_parameters(flow, {"num_env": 3})
    assert error.value.message == "that run had a parameter 'num_env', which workflow 'flow' no longer has"
    assert error.value.hint == "did you mean 'num_envs'?"


def test_a_run_that_came_to_nothing_does_not_keep_its_directory(tmp_path: Path) -> None:
    config = RunConfig(workflow="w", file="")
    first = RunDirectory.create(config, tmp_path / "run")
    first.write_summary({"status": "failed", "iterations": 0})
    assert RunDirectory.create(config, tmp_path / "run").summary is None
