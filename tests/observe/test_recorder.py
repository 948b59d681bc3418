from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.graph.plan import Plan, Quota, StagePlan
from ebrl.observe.events import Event
from ebrl.observe.recorder import RunRecorder
from ebrl.observe.records import plain, read_lines
from ebrl.observe.run_directory import RunConfig, RunDirectory

PLAN = Plan(
    workflow="reach",
    stages=(StagePlan(name="simulate", kind="simulation", quota=Quota(cores=(0, 1)), batch_size=8),),
    loops=(("simulate",),),
)


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(RunConfig(workflow="reach", file=""), tmp_path / "run")


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
    for first, last in ((1, 3), (3, 4)):
        recorder = RunRecorder(RunDirectory.reopen(directory.path, iteration=first - 1), first_iteration=first)
        for iteration in range(first, last + 1):
            recorder(event("iteration", iteration=iteration))
        recorder.close()
    assert [row["iteration"] for row in read_lines(directory.metrics_file)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, None),
        (np.float32("nan"), None),
        (np.arange(3), [0, 1, 2]),
        ({1: (Path("a"), {"x"})}, {"1": ["a", ["x"]]}),
        (True, True),
        (Quota(cores=(1,)), {"cores": [1], "bound": False, "threads": 1, "gpus": [], "memory_mib": None}),
        (len, "<built-in function len>"),
    ],
)
def test_plain(value: Any, expected: Any) -> None:
    assert plain(value) == expected
