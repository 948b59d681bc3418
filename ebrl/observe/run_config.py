"""RunConfig: what a run was asked to do, as ``config.json`` of its directory keeps it."""

from __future__ import annotations

import enum
import json
import math
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, get_origin

import attrs

from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.model import Graph
from ebrl.graph.parameters import convert, members, parameter_types
from ebrl.graph.source import function_place
from ebrl.observe.records import plain

VERSIONED = ("ebrl", "dask", "distributed", "torch", "numpy", "gymnasium", "mujoco", "robosuite")
"""Packages whose version a run records where they are installed."""

LARGEST_SEED = 2**63 - 1
"""Seeds travel as signed 64 bits."""


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
    without: tuple[str, ...] = ()
    """Mechanisms that the schedule was to do without."""
    scheduler: str | None = None
    """Address of a scheduler of the user's; None: the run starts its own cluster."""
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = attrs.field(factory=dict)
    started: str = ""
    """Local time, ISO 8601."""

    @staticmethod
    def of(
        graph: Graph, *, seed: int, schedule: str, without: Sequence[str] = (), scheduler: str | None = None
    ) -> RunConfig:
        """The configuration of a run that starts now in this process."""
        file = Path(graph.place.rpartition(":")[0])
        return RunConfig(
            workflow=graph.name,
            file=str(file.resolve()) if file.is_file() else "",
            parameters={name: _storable(value) for name, value in graph.parameters.items()},
            seed=seed,
            schedule=schedule,
            without=tuple(without),
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
        return attrs.evolve(config, command=tuple(config.command), without=tuple(config.without))


def restored_parameters(function: Callable[..., Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a workflow function from `RunConfig.parameters`, in the types that JSON has lost."""
    types = parameter_types(function)
    for name in stored:
        if name not in types:
            raise UsageError(
                f"that run had a parameter {name!r}, which workflow {function.__name__!r} no longer has",
                place=function_place(function),
                hint=did_you_mean(name, types),
            )
    return {name: _restored(value, members(types[name])) for name, value in stored.items()}


def _restored(value: Any, annotations: Sequence[Any]) -> Any:
    kinds = [get_origin(annotation) or annotation for annotation in annotations]
    if isinstance(value, list) and tuple in kinds:
        return tuple(value)
    if not isinstance(value, str) or str in kinds:
        return value
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, float | Path | enum.Enum):
            with suppress(ValueError):
                return convert(value, kind)
    return value


def changed_parameters(before: RunConfig, now: RunConfig) -> str:
    """``hidden from 16 to 32, num_envs from 4 to 8``: what a resumed run does otherwise; empty where it is the same."""
    old, new = plain(before.parameters), plain(now.parameters)
    return ", ".join(
        f"{name} from {old.get(name)!r} to {new.get(name)!r}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


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


def _known_runs(folder: Path) -> str:
    try:
        runs = sorted((path.parent for path in folder.glob("*/config.json")), key=lambda run: run.stat().st_mtime)
    except OSError:
        return ""
    if not runs:
        return ""
    return f"runs in {folder}: " + ", ".join(run.name for run in runs[-5:])
