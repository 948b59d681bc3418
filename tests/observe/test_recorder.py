from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.graph.plan import Plan, Quota, StagePlan
from ebrl.observe.events import Event
from ebrl.observe.recorder import ResumingRecorder, RunRecorder
from ebrl.observe.records import plain, read_lines
from ebrl.observe.run_config import RunConfig
from ebrl.observe.run_directory import RunDirectory

PLAN = Plan(
    workflow="reach",
    stages=(StagePlan(name="simulate", kind="simulation", quota=Quota(cores=(0, 1)), batch_size=8),),
    loops=(("simulate",),),
)


CONFIG = RunConfig(workflow="reach", file="")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    with RunDirectory.claim("reach", tmp_path / "run") as run:
        run.begin(CONFIG)
        yield run


def event(kind: str, **data: Any) -> Event:
    return Event(kind=kind, time_s=100.0, data=data)


def scalars(directory: RunDirectory) -> set[str]:
    """Tags in the TensorBoard files, read by the record format itself."""
    from tensorboardX.proto.event_pb2 import Event as Record

    tags = set()
    for path in (directory.path / "tensorboard").iterdir():
        content, at = path.read_bytes(), 0
        while at < len(content):
            size = int.from_bytes(content[at : at + 8], "little")
            record = Record.FromString(content[at + 12 : at + 12 + size])
            tags.update(value.tag for value in record.summary.value)
            at += 12 + size + 4
    return tags


def test_a_whole_run(directory: RunDirectory) -> None:
    recorder = RunRecorder(directory)
    recorder(event("started", plan=PLAN, dashboard_link="http://127.0.0.1:8787", run_dir="run", workers={}))
    row = {"iteration": 1, "env_steps": np.int64(512), "success": math.nan, "idle/simulate": 0.1, "train/kl": 0.2}
    recorder(event("iteration", **row))
    # Each line is on disk when the call returns.
    assert list(read_lines(directory.metrics_file)) == [{**row, "success": None, "time_s": 100.0}]
    recorder(event("report", stage="evaluate", iteration=1, metrics={"success": 0.5}))
    recorder(event("environment_lost", stage="simulate", environment=3, episode=1, step=7, message="killed"))
    assert directory.summary is None
    recorder(event("finished", status="finished", success=0.9))
    assert directory.summary == {"status": "finished", "success": 0.9}
    kinds = [line["kind"] for line in read_lines(directory.path / "events.jsonl")]
    assert kinds == ["started", "report", "environment_lost", "finished"]
    plan = json.loads((directory.path / "plan.json").read_text())
    assert plan["stages"][0]["quota"]["cores"] == [0, 1]
    assert scalars(directory) == {"run/env_steps", "idle/simulate", "train/kl", "evaluate/success"}


def test_summary_is_the_last_write(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = RunRecorder(directory)
    written = []

    def write_summary(self: RunDirectory, summary: object) -> None:
        written.append(((self.path / "events.jsonl").read_text(), recorder._closed))

    monkeypatch.setattr(RunDirectory, "write_summary", write_summary)
    recorder(event("finished", status="finished"))
    [(events, closed)] = written
    assert closed and json.loads(events)["kind"] == "finished"


def test_run_without_end_has_no_summary(directory: RunDirectory) -> None:
    recorder = RunRecorder(directory)
    recorder(event("checkpoint", path=directory.checkpoints / "1", iteration=1))
    recorder.close()
    recorder.close()
    recorder(event("checkpoint", path="late", iteration=2))
    assert directory.summary is None
    assert [line["iteration"] for line in read_lines(directory.path / "events.jsonl")] == [1]


def test_resumed_run_appends(directory: RunDirectory) -> None:
    recorder: RunRecorder | ResumingRecorder = RunRecorder(directory)
    for first, last in ((1, 3), (3, 4)):
        for iteration in range(first, last + 1):
            recorder(event("iteration", iteration=iteration))
        recorder.close()
        recorder = ResumingRecorder(directory, CONFIG, iteration=3)
    assert [row["iteration"] for row in read_lines(directory.metrics_file)] == [1, 2, 3, 4]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("status", ["failed", "interrupted", "killed"])
def test_what_fails_before_its_first_iteration_leaves_the_earlier_run_as_it_was(
    directory: RunDirectory, status: str
) -> None:
    recorder = RunRecorder(directory)
    recorder(event("iteration", iteration=0))
    recorder(event("finished", status="finished", iterations=1))
    before = contents(directory.path)
    resumed = ResumingRecorder(directory, RunConfig(workflow="reach", file="", parameters={"a": 1}), iteration=1)
    resumed(event("started", plan=PLAN, dashboard_link="", run_dir="", workers={}))
    if status != "killed":
        resumed(event("finished", status=status, iterations=1))
    resumed.close()
    assert contents(directory.path) == before


def test_a_resumed_run_takes_over_with_its_first_iteration(directory: RunDirectory) -> None:
    recorder = RunRecorder(directory)
    recorder(event("finished", status="interrupted"))
    asked = RunConfig(workflow="reach", file="", parameters={"a": 1})
    resumed = ResumingRecorder(directory, asked, iteration=1)
    resumed(event("started", plan=PLAN, dashboard_link="", run_dir="", workers={}))
    resumed(event("iteration", iteration=1))
    resumed.close()
    assert (directory.config, directory.summary) == (asked, None)
    assert [line["kind"] for line in read_lines(directory.path / "events.jsonl")] == ["finished", "started"]


def test_a_resumed_run_that_has_nothing_left_to_do_is_finished(directory: RunDirectory) -> None:
    resumed = ResumingRecorder(directory, CONFIG, iteration=1)
    resumed(event("finished", status="finished", iterations=1))
    assert directory.summary == {"status": "finished", "iterations": 1}


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_numbers_that_are_none_are_kept_as_null_and_nobody_complains(
    directory: RunDirectory, odd: float, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    recorder = RunRecorder(directory)
    with caplog.at_level(logging.DEBUG):
        recorder(event("iteration", iteration=0, success=odd))
        recorder(event("report", stage="evaluate", iteration=0, metrics={"reward": odd}))
        recorder.close()
    [row] = read_lines(directory.metrics_file)
    assert row["success"] is None
    assert scalars(directory) == set()
    assert not caplog.records and capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, None),
        (np.float32("nan"), None),
        (np.arange(3), [0, 1, 2]),
        ({1: (Path("a"), {"x"})}, {"1": ["a", ["x"]]}),
        (True, True),
        (
            Quota(cores=(1,)),
            {
                "cores": [1],
                "bound": False,
                "threads": 1,
                "gpus": [],
                "gpu_memory_mib": [],
                "sm_percent": [],
                "memory_mib": None,
            },
        ),
        (len, "<built-in function len>"),
    ],
)
def test_plain(value: Any, expected: Any) -> None:
    assert plain(value) == expected
