"""RunRecorder: writes the run directory from the events of the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebrl.errors import EbrlError
from ebrl.observe.events import Event
from ebrl.observe.records import LineFile, write_json
from ebrl.observe.run_config import RunConfig
from ebrl.observe.run_directory import RunDirectory


class RunRecorder:
    """An observer that keeps a run on disk. Every line is complete and flushed before the call returns. EbrlError where
    somebody has removed what it writes to, until the run has failed.

    The event ``finished`` writes ``summary.json`` after all other files are closed. Close a recorder
    whose run ended without that event: then the run has no summary, and can be resumed.
    """

    def __init__(self, directory: RunDirectory, *, first_iteration: int = 0) -> None:
        """`first_iteration`: where a resumed run goes on; TensorBoard hides what it had from there."""
        # Imports torch where it is installed, which takes seconds: not at the top of a module.
        from tensorboardX import SummaryWriter

        self.directory = directory
        self._events = LineFile(directory.path / "events.jsonl")
        self._metrics = LineFile(directory.metrics_file)
        self._scalars = SummaryWriter(
            str(directory.path / "tensorboard"), purge_step=first_iteration or None, flush_secs=10
        )
        self._closed = False

    def __call__(self, event: Event) -> None:
        if self._closed:
            return
        if gone := self._gone():
            if event.kind == "finished" and event.data["status"] == "failed":
                self.close()
                return
            raise EbrlError(f"{gone} was removed while the run wrote to it")
        if event.kind == "iteration":
            iteration = int(event.data["iteration"])
            self._metrics.write({"iteration": iteration, "time_s": event.time_s, **event.data})
            self._add_scalars(event.data, iteration, event.time_s)
            return
        if event.kind in ("started", "replan", "revert"):
            write_json(self.directory.path / "plan.json", event.data["plan"])
        if event.kind == "report":
            named = {f"{event.data['stage']}/{name}": value for name, value in event.data["metrics"].items()}
            self._add_scalars(named, int(event.data["iteration"]), event.time_s)
        self._events.write({"kind": event.kind, "time_s": event.time_s, **event.data})
        if event.kind == "finished":
            self.close()
            self.directory.write_summary(event.data)

    def _gone(self) -> Path | None:
        """What is no longer there: the system goes on writing to files without a name."""
        for file in (self._metrics, self._events):
            if not file.named():
                return file.path if self.directory.path.is_dir() else self.directory.path
        return None

    def close(self) -> None:
        """Close all files; further events are ignored. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._events.close()
            self._metrics.close()
            self._scalars.close()

    def _add_scalars(self, values: Mapping[str, Any], iteration: int, time_s: float) -> None:
        for name, value in values.items():
            # TensorBoard knows no NaN and no infinity, and says so on the terminal.
            if name != "iteration" and value is not None and math.isfinite(value):
                tag = name if "/" in name else f"run/{name}"
                self._scalars.add_scalar(tag, float(value), iteration, walltime=time_s)


class ResumingRecorder:
    """Records a resumed run from its first iteration on. Until then the earlier run stays as it was left.

    What does not fit the checkpoint shows before that: another network, another simulator, a stage that fails.
    """

    def __init__(self, directory: RunDirectory, config: RunConfig, *, iteration: int) -> None:
        """`iteration`: the first that will run; `config`: what is asked of the run from now on."""
        self._directory, self._config, self._iteration = directory, config, iteration
        self._held: list[Event] = []
        self._recorder: RunRecorder | None = None

    def __call__(self, event: Event) -> None:
        done = event.kind == "finished" and event.data["status"] == "finished"  # nothing was left to do
        if self._recorder is None and (event.kind == "iteration" or done):
            self._directory.resume(self._config, iteration=self._iteration - 1)
            self._recorder = RunRecorder(self._directory, first_iteration=self._iteration)
            for held in self._held:
                self._recorder(held)
        if self._recorder is None:
            self._held.append(event)
        else:
            self._recorder(event)

    def close(self) -> None:
        """Close all files. Safe to call twice."""
        if self._recorder is not None:
            self._recorder.close()
