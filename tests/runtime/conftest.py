"""Whole runs for tests: real Dask processes, real environment processes, Pendulum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

import ebrl
from ebrl.graph.load import load_workflow
from ebrl.observe.events import Event

WORKFLOWS = Path(__file__).parent / "workflows" / "small.py"


@attrs.define
class Outcome:
    """What a run in this process left: events by kind, metrics, the directory."""

    events: list[Event] = attrs.field(factory=list)
    folder: Path = Path()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [dict(event.data) for event in self.events if event.kind == kind]

    @property
    def summary(self) -> dict[str, Any]:
        return self.of("finished")[-1]

    def metrics(self) -> list[dict[str, Any]]:
        """Per iteration everything that does not measure time."""
        timed = ("wall_s", "env_steps_per_s", "time_s", "queue_depth")
        return [
            {
                name: value
                for name, value in row.items()
                if name not in timed and not name.startswith(("idle/", "generate/"))
            }
            for row in map(json.loads, (self.folder / "metrics.jsonl").read_text().splitlines())
        ]


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Outcome]:
    """Run a workflow of `file`; `during` is called with (run, iteration) after each iteration."""
    count = iter(range(100))

    def start(
        name: str = "small",
        *settings: str,
        file: Path = WORKFLOWS,
        during: Callable[[ebrl.runtime.run.Run, Any], None] | None = None,
        resume: Path | None = None,
        **options: Any,
    ) -> Outcome:
        outcome = Outcome(folder=resume or tmp_path / f"run-{next(count)}")
        graph = load_workflow(f"{file}:{name}").with_settings(list(settings))
        where = {"resume": resume} if resume else {"run_dir": outcome.folder}
        with ebrl.launch(graph, observers=[outcome.events.append], **where, **options) as run:
            for iteration in run:
                if during is not None:
                    during(run, iteration)
        return outcome

    return start


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Every run ends with all of its processes."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    # multiprocessing's resource tracker stays as long as this process.
    left = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.pid not in before and "resource_tracker" not in " ".join(_command(child))
    ]
    _, alive = psutil.wait_procs(left, timeout=5)
    assert not alive, [_command(child) for child in alive]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def ebrl_run(*arguments: str, cwd: Path, **options: Any) -> subprocess.Popen[str]:
    """`ebrl run …` in a process of its own."""
    command = [sys.executable, "-m", "ebrl", "run", *arguments]
    return subprocess.Popen(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "160"},
        **options,
    )


def wait_for_iterations(folder: Path, count: int, process: subprocess.Popen[str], timeout_s: float = 60.0) -> None:
    """Until the run in `folder` has recorded `count` iterations."""
    deadline = time.monotonic() + timeout_s
    metrics = folder / "metrics.jsonl"
    while not metrics.exists() or len(metrics.read_text().splitlines()) < count:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.1)


def session_processes(session: int) -> list[psutil.Process]:
    """All live processes of a session, or started by one of it."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.Error):
            continue
    return found
