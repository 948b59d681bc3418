"""The run directory: everything that one run keeps.

``config.json``     what was asked for: workflow, file, parameters, seed, schedule, versions, command
``plan.json``       the plan that runs
``events.jsonl``    one line per event other than iterations
``metrics.jsonl``   one line per iteration
``tensorboard/``    the same numbers for TensorBoard
``checkpoints/``    written by the runtime, as are ``logs/`` and ``policy.safetensors``
``summary.json``    written last, in one piece: a run directory with it belongs to a run that has ended
``.lock``           held while a process writes to the directory, and names that process
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import attrs

from ebrl.errors import UsageError
from ebrl.observe.records import keep_lines, plain, write_json
from ebrl.observe.run_config import RunConfig
from ebrl.observe.run_lock import LOCK, exclusive

_WRITTEN = (
    "config.json",
    "plan.json",
    "events.jsonl",
    "metrics.jsonl",
    "tensorboard",
    "checkpoints",
    "logs",
    "summary.json",
)
"""What a run that came to nothing has left; other files in its folder are the user's."""


@attrs.define(frozen=True)
class RunDirectory:
    """The folder of one run, held by one process at a time: see `claim` and `reclaim`."""

    path: Path

    @staticmethod
    @contextmanager
    def claim(workflow: str, path: str | Path | None = None) -> Iterator[RunDirectory]:
        """A folder for a new run, this process's alone within the block: `path`, or ``runs/<workflow>-<time>``.

        It goes away with the block where no run began in it. Raises UsageError where `path` holds a run, is
        in use by another process, or cannot be written.
        """
        chosen = _free_path(workflow) if path is None else _checked(path)
        new = path is None or not chosen.exists()
        try:
            chosen.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"the run directory {chosen} cannot be written: {error.strerror}") from None
        run = RunDirectory(chosen.absolute())
        with exclusive(run.path):
            run._refuse_used()
            try:
                yield run
            finally:
                if not (run.path / "config.json").exists():
                    (run.path / LOCK).unlink(missing_ok=True)
                    with suppress(OSError):
                        run.path.rmdir() if new else None

    @staticmethod
    @contextmanager
    def reclaim(path: str | Path) -> Iterator[RunDirectory]:
        """An earlier run, this process's alone within the block. Nothing in it changes before `resume`.

        Raises UsageError where `path` is no run directory, is in use, or cannot be written.
        """
        run = RunDirectory(Path(path).absolute())
        RunConfig.read(run.path)
        with exclusive(run.path):
            yield run

    def begin(self, config: RunConfig) -> None:
        """Write `config.json`; UsageError where that is impossible."""
        try:
            self.checkpoints.mkdir(exist_ok=True)
            write_json(self.path / "config.json", config)
        except OSError as error:
            raise UsageError(f"the run directory {self.path} cannot be written: {error.strerror}") from None

    def resume(self, config: RunConfig, *, iteration: int) -> None:
        """Open the run again (its summary goes) and continue as `config` says, also in a further resume.

        Metrics of iterations after `iteration`, the last one that the checkpoint knows, are dropped: they
        are run again.
        """
        self.summary_file.unlink(missing_ok=True)
        self.begin(config)
        keep_lines(self.path / "events.jsonl", lambda row: True)
        keep_lines(self.metrics_file, lambda row: bool(row["iteration"] <= iteration))

    @property
    def config(self) -> RunConfig:
        return RunConfig.read(self.path)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    @property
    def summary(self) -> dict[str, Any] | None:
        """How the run ended; None while it runs or after it was killed."""
        if not self.summary_file.exists():
            return None
        summary: dict[str, Any] = json.loads(self.summary_file.read_text(encoding="utf-8"))
        return summary

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """The last write of a run."""
        write_json(self.summary_file, plain(summary))

    def _came_to_nothing(self) -> bool:
        """Whether a run ended here before its first iteration, for example on a misspelt simulator."""
        try:
            RunConfig.read(self.path)
        except UsageError:  # files of somebody else, whatever their names
            return False
        ran = self.metrics_file.exists() and self.metrics_file.stat().st_size > 0
        saved = self.checkpoints.is_dir() and any(entry.name.isdigit() for entry in self.checkpoints.iterdir())
        return not ran and not saved and (self.summary or {}).get("iterations", 0) == 0

    def _refuse_used(self) -> None:
        if self._came_to_nothing():
            for name in _WRITTEN:
                path = self.path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if self.summary_file.exists():
            raise UsageError(
                f"{self.path} holds a finished run, which is not overwritten",
                hint=f"choose another --run-dir, or continue that run: ebrl run --resume {self.path}",
            )
        if (self.path / "config.json").exists():
            raise UsageError(
                f"{self.path} holds a run that has not finished",
                hint=f"choose another --run-dir, or continue that run: ebrl run --resume {self.path}",
            )


def _checked(path: str | Path) -> Path:
    if not str(path).strip():
        raise UsageError(
            "the run directory has an empty name", hint="name one, or leave it out for runs/<workflow>-<time>"
        )
    chosen = Path(path)
    if chosen.exists() and not chosen.is_dir():
        raise UsageError(f"the run directory {chosen} is a file", hint="choose another --run-dir")
    return chosen


def _free_path(workflow: str) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    names = (f"{workflow}-{stamp}{f'-{n}' if n > 1 else ''}" for n in count(1))
    for name in names:
        path = Path("runs") / name
        try:
            path.mkdir(parents=True)  # claims the name: two runs may start in the same second
        except FileExistsError:
            if path.exists():
                continue
            raise UsageError("the run directory runs/ cannot be made: a file of that name exists") from None
        except OSError as error:
            raise UsageError(
                f"the run directory {path} cannot be made: {error.strerror}", hint="choose one with --run-dir"
            ) from None
        return path
    raise AssertionError("unreachable")
