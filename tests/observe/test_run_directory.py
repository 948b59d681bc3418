from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from ebrl.errors import UsageError
from ebrl.observe.records import read_lines
from ebrl.observe.run_config import RunConfig
from ebrl.observe.run_directory import RunDirectory

CONFIG = RunConfig(workflow="reach", file="/flows/reach.py", parameters={"num_envs": 4}, seed=3)


def create(path: Path | None = None) -> RunDirectory:
    """The directory of a run that was started and stopped."""
    with RunDirectory.claim(CONFIG.workflow, path) as run:
        run.begin(CONFIG)
    return run


def test_default_path_names_workflow_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = create(), create()
    assert first.path.parent == tmp_path / "runs"
    assert first.path.name.startswith("reach-")
    assert first.path != second.path, "two runs in the same second"
    assert first.checkpoints.is_dir()
    assert first.config == CONFIG
    assert first.summary is None


def test_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    run.write_summary({"status": "finished", "iterations": 3})
    with pytest.raises(UsageError) as error:
        create(tmp_path / "run")
    assert str(error.value) == (
        f"error: {tmp_path}/run holds a finished run, which is not overwritten\n"
        f"  hint: choose another --run-dir, or continue that run: ebrl run --resume {tmp_path}/run"
    )
    assert run.summary == {"status": "finished", "iterations": 3}


@pytest.mark.parametrize("kept", ["metrics.jsonl", "checkpoints/000010"])
def test_unfinished_run_is_not_overwritten(tmp_path: Path, kept: str) -> None:
    create(tmp_path)
    (tmp_path / kept).write_text("{}")
    with pytest.raises(UsageError, match="has not finished"):
        create(tmp_path)


@pytest.mark.parametrize("summary", [None, {"status": "failed", "iterations": 0}])
def test_a_run_that_came_to_nothing_does_not_keep_its_directory(tmp_path: Path, summary: dict[str, object]) -> None:
    first = create(tmp_path / "run")
    if summary is not None:
        first.write_summary(summary)
    (first.path / "notes.txt").write_text("the user's")
    assert create(tmp_path / "run").summary is None
    assert (first.path / "notes.txt").read_text() == "the user's"


def test_files_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model": "mine"}')
    (tmp_path / "logs").mkdir()
    with pytest.raises(UsageError):
        create(tmp_path)
    assert (tmp_path / "config.json").read_text() == '{"model": "mine"}'
    assert (tmp_path / "logs").is_dir()


def test_folder_with_a_log_file_in_it_is_fine(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("started by nohup")
    assert create(tmp_path).config == CONFIG


def test_what_can_hold_no_run(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(UsageError, match="is a file"):
        create(tmp_path / "run")
    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        create(tmp_path / "run" / "below")
    with pytest.raises(UsageError, match="cannot be written"):
        create(Path("/proc/ebrl"))
    with pytest.raises(UsageError, match="cannot be written"):
        create(Path("/proc"))
    with pytest.raises(UsageError, match="has an empty name"), RunDirectory.claim("reach", ""):
        pass


def test_a_claim_that_comes_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name in ("new", "own"):
        with pytest.raises(KeyError), RunDirectory.claim("reach", tmp_path / name):
            raise KeyError
    assert [path.name for path in tmp_path.rglob("*")] == ["own"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with RunDirectory.claim("reach", tmp_path) as run:
        run.begin(CONFIG)
        for second in (RunDirectory.claim("reach", tmp_path), RunDirectory.reclaim(tmp_path)):
            with pytest.raises(UsageError) as error, second:
                pass
            assert error.value.message == (
                f"the run directory {tmp_path} is in use by process {os.getpid()} on {os.uname().nodename}"
            )
    with RunDirectory.reclaim(tmp_path) as again:
        assert again.config == CONFIG


def test_a_process_that_dies_lets_go(tmp_path: Path) -> None:
    create(tmp_path)
    script = (
        "import sys\nfrom ebrl.observe.run_directory import RunDirectory\n"
        "with RunDirectory.reclaim(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(UsageError, match=f"is in use by process {holder.pid} on"), RunDirectory.reclaim(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with RunDirectory.reclaim(tmp_path):
        pass


def test_resume_of_an_unknown_run_names_the_known_ones(tmp_path: Path) -> None:
    create(tmp_path / "reach-1")
    with pytest.raises(UsageError) as error, RunDirectory.reclaim(tmp_path / "reach-2"):
        pass
    assert error.value.message == f"{tmp_path}/reach-2 is no run directory: it does not exist"
    assert error.value.hint == f"runs in {tmp_path}: reach-1"
    with pytest.raises(UsageError, match=r"it has no config\.json"), RunDirectory.reclaim(tmp_path):
        pass


def test_resume_drops_what_runs_again_and_cut_lines(tmp_path: Path) -> None:
    run = create(tmp_path)
    rows = "".join(f'{{"iteration": {n}}}\n' for n in range(1, 8))
    run.metrics_file.write_text(rows + '{"iteration": 8, "succ')
    (tmp_path / "events.jsonl").write_text('{"kind": "started"}\n{"ki')
    run.write_summary({"status": "interrupted"})
    run.resume(CONFIG, iteration=5)
    assert run.summary is None
    assert [row["iteration"] for row in read_lines(run.metrics_file)] == [1, 2, 3, 4, 5]
    assert (tmp_path / "events.jsonl").read_text() == '{"kind": "started"}\n'


def test_resume_keeps_changed_parameters_for_the_next_one(tmp_path: Path) -> None:
    changed = attrs.evolve(CONFIG, parameters={"num_envs": 16})
    run = create(tmp_path)
    run.resume(changed, iteration=0)
    assert run.config == changed


def test_summary_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A process that dies in the middle of the write leaves the old summary and no other file of that name."""
    run = create(tmp_path)
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
    run = create(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run.write_summary({"status": "finished"})
    assert run.summary is None
    assert not list(tmp_path.glob(".summary*"))
