"""The run directory: everything that one run keeps.

``config.json``     what was asked for: workflow, file, parameters, seed, schedule, versions, command
``plan.json``       the plan that runs
``events.jsonl``    one line per event other than iterations
``metrics.jsonl``   one line per iteration
``tensorboard/``    the same numbers for TensorBoard
``checkpoints/``    written by the runtime, as are ``logs/`` and ``policy.safetensors``
``summary.json``    written last, in one piece: a run directory with it belongs to a run that has ended
"""

from __future__ import annotations

import enum
import json
import math
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any, get_origin

import attrs

from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.model import Graph
from ebrl.graph.parameters import convert, parameter_types
from ebrl.graph.source import function_place
from ebrl.observe.records import keep_lines, plain, write_json

VERSIONED = ("ebrl", "dask", "distributed", "torch", "numpy", "gymnasium", "mujoco", "robosuite")
"""Packages whose version a run records where they are installed."""


@attrs.define(frozen=True, kw_only=True)
class RunConfig:
    """What a run was asked to do; enough to start it again."""

    workflow: str
    """Name of the workflow function."""
    file: str
    """Absolute path of the workflow file; empty where there is none (a notebook)."""
    parameters: Mapping[str, Any] = attrs.field(factory=dict)
    """Arguments of the workflow, defaults included."""
    seed: int = 0
    schedule: str = "ebrl"
    scheduler: str | None = None
    """Address of a scheduler of the user's; None: the run starts its own cluster."""
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = attrs.field(factory=dict)
    started: str = ""
    """Local time, ISO 8601."""

    @staticmethod
    def of(graph: Graph, *, seed: int, schedule: str, scheduler: str | None = None) -> RunConfig:
        """The configuration of a run that starts now in this process."""
        file = Path(graph.place.rpartition(":")[0])
        return RunConfig(
            workflow=graph.name,
            file=str(file.resolve()) if file.is_file() else "",
            parameters={name: _storable(value) for name, value in graph.parameters.items()},
            seed=seed,
            schedule=schedule,
            scheduler=scheduler,
            command=tuple(sys.argv),
            versions=installed_versions(),
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )

    @staticmethod
    def read(run: Path) -> RunConfig:
        """The configuration of an earlier run; UsageError where `run` is no run directory."""
        path = run / "config.json"
        if not path.is_file():
            raise UsageError(
                f"{run} is no run directory: {'it has no config.json' if run.is_dir() else 'it does not exist'}",
                hint=_known_runs(run.parent),
            )
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            names = {field.name for field in attrs.fields(RunConfig)}
            config = RunConfig(**{name: value for name, value in stored.items() if name in names})
        except (ValueError, AttributeError, TypeError) as error:
            raise UsageError(f"{path} is damaged: {error}") from None
        return attrs.evolve(config, command=tuple(config.command))


@attrs.define(frozen=True)
class RunDirectory:
    """The folder of one run. Made by `create` or `reopen`."""

    path: Path

    @staticmethod
    def create(config: RunConfig, path: str | Path | None = None) -> RunDirectory:
        """Make `path`, or ``runs/<workflow>-<timestamp>`` below the current folder, and write `config.json`.

        Raises UsageError where `path` already holds a run or cannot be written.
        """
        chosen = Path(path) if path is not None else _free_path(config.workflow)
        run = RunDirectory(chosen.absolute())
        run._refuse_used()
        try:
            run.checkpoints.mkdir(parents=True, exist_ok=True)
            write_json(run.path / "config.json", config)
        except OSError as error:
            raise UsageError(f"the run directory {chosen} cannot be written: {error.strerror}") from None
        return run

    @staticmethod
    def reopen(path: str | Path, *, iteration: int | None = None, config: RunConfig | None = None) -> RunDirectory:
        """An earlier run that goes on: the run is open again (its summary goes).

        `config` is what is asked of it from now on, so that a further resume keeps changed parameters.
        Metrics of iterations after `iteration`, the last one that the checkpoint knows, are dropped: they
        are about to be run again. Raises UsageError where `path` is no run directory.
        """
        run = RunDirectory(Path(path).absolute())
        RunConfig.read(run.path)
        run.summary_file.unlink(missing_ok=True)
        run.checkpoints.mkdir(exist_ok=True)
        if config is not None:
            write_json(run.path / "config.json", config)
        keep_lines(run.path / "events.jsonl", lambda row: True)
        keep_lines(run.metrics_file, lambda row: iteration is None or row["iteration"] <= iteration)
        return run

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
        return (self.summary or {}).get("iterations") == 0 and not any(self.checkpoints.iterdir())

    def _refuse_used(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"the run directory {self.path} is a file")
        if self._came_to_nothing():
            shutil.rmtree(self.path)
        if self.summary_file.exists():
            raise UsageError(
                f"{self.path} holds a finished run, which is not overwritten",
                hint=f"choose another --run-dir, or continue that run: ebrl run --resume {self.path}",
            )
        if (self.path / "config.json").exists():
            raise UsageError(
                f"{self.path} holds a run that has not finished",
                hint=f"it may still be running; if it was stopped: ebrl run --resume {self.path}",
            )


def restored_parameters(function: Callable[..., Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a workflow function from `RunConfig.parameters`, in the types that JSON has lost."""
    types = parameter_types(function)
    restored = {}
    for name, value in stored.items():
        if name not in types:
            raise UsageError(
                f"that run had a parameter {name!r}, which workflow {function.__name__!r} no longer has",
                place=function_place(function),
                hint=did_you_mean(name, types),
            )
        kind = get_origin(types[name]) or types[name]
        if isinstance(value, list) and kind is tuple:
            value = tuple(value)
        elif isinstance(value, str) and isinstance(kind, type) and issubclass(kind, float | Path | enum.Enum):
            value = convert(value, kind)
        restored[name] = value
    return restored


def _storable(value: Any) -> Any:
    """Names of enum members, and words for the numbers that JSON lacks; see `restored_parameters`."""
    if isinstance(value, enum.Enum):
        return value.name
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape a run, as far as they are installed."""
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


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


def _known_runs(folder: Path) -> str:
    try:
        runs = sorted((path.parent for path in folder.glob("*/config.json")), key=lambda run: run.stat().st_mtime)
    except OSError:
        return ""
    if not runs:
        return ""
    return f"runs in {folder}: " + ", ".join(run.name for run in runs[-5:])
