"""Checkpoints: everything a run needs to go on, written so that a half-written one is never found."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ebrl.errors import CheckpointError, EbrlError
from ebrl.graph.items import Array, checksum
from ebrl.graph.model import Graph, Node
from ebrl.graph.plan import Plan

_KEPT = 3


@attrs.define(frozen=True, kw_only=True)
class Checkpoint:
    """The state of a run after `iteration` training iterations."""

    workflow: str
    iteration: int
    weights: Mapping[str, Array]
    states: Mapping[str, Any]
    """Per stage, what `State.save` gave: optimisers, counters."""
    counters: Mapping[str, Any]
    positions: Mapping[int, Any] = attrs.field(factory=dict)
    """Per environment, where it stood; only where results must not depend on timing."""


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write ``folder/<iteration>``; keeps the newest three. Returns its path. EbrlError where it cannot be written."""
    try:
        return _save(folder, checkpoint)
    except (OSError, SafetensorError) as error:
        raise EbrlError(
            f"the checkpoint of iteration {checkpoint.iteration} cannot be written: {error}",
            hint="make room, then ebrl run --resume goes on from the newest one that is whole",
        ) from error


def _save(folder: Path, checkpoint: Checkpoint) -> Path:
    final = path(folder, checkpoint.iteration)
    partial = folder / f".{final.name}-{os.getpid()}"
    for abandoned in folder.glob(".*-*"):  # of drivers that were killed
        shutil.rmtree(abandoned, ignore_errors=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()  # not its parents: a run directory that was removed is not made again
    partial.mkdir()
    save_file({name: array.copy() for name, array in checkpoint.weights.items()}, partial / "weights.safetensors")
    with open(partial / "state.pkl", "wb") as file:
        pickle.dump({"states": checkpoint.states, "positions": checkpoint.positions}, file)
    about = {
        "workflow": checkpoint.workflow,
        "iteration": checkpoint.iteration,
        "weights_checksum": checksum(checkpoint.weights),
        "counters": checkpoint.counters,
    }
    (partial / "checkpoint.json").write_text(json.dumps(about, indent=1))
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    for old in sorted(entry for entry in folder.iterdir() if entry.name.isdigit())[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def path(folder: Path, iteration: int) -> Path:
    """Where the checkpoint of `iteration` is kept."""
    return folder / f"{iteration:06d}"


def newest(folder: Path, workflow: str) -> Checkpoint:
    """The newest checkpoint below `folder`; CheckpointError where there is none or it is damaged."""
    found = sorted(entry for entry in folder.glob("[0-9]*") if (entry / "checkpoint.json").exists())
    if not found:
        raise CheckpointError(
            f"no checkpoint in {folder}", hint="the run ended before its first checkpoint; start it again"
        )
    last = found[-1]
    try:
        about = json.loads((last / "checkpoint.json").read_text())
        weights = load_file(last / "weights.safetensors")
        with open(last / "state.pkl", "rb") as file:
            state = pickle.load(file)
        about["workflow"], about["iteration"], about["weights_checksum"], about["counters"]
        state["states"], state["positions"]
    except Exception as error:
        raise CheckpointError(
            f"{last} is damaged: {error}", hint=f"remove it to use an earlier one: {folder}"
        ) from None
    if about["workflow"] != workflow:
        raise CheckpointError(
            f"{last} belongs to workflow {about['workflow']!r}, not to {workflow!r}",
            hint="resume it with the workflow that made it, or start a new run",
        )
    if checksum(weights) != about["weights_checksum"]:
        raise CheckpointError(f"the weights in {last} are damaged", hint=f"remove it to use an earlier one: {folder}")
    return Checkpoint(
        workflow=workflow,
        iteration=about["iteration"],
        weights=weights,
        states=state["states"],
        counters=about["counters"],
        positions=state["positions"],
    )


def check_fit(saved: Checkpoint, graph: Graph, plan: Plan) -> None:
    """Raise CheckpointError where `graph` cannot go on from `saved`, as far as that shows before anything runs."""
    trainer = graph.of_kind("training")[0]
    if trainer.name not in saved.states:
        _refuse(
            f"the checkpoint keeps the stages {', '.join(sorted(saved.states))}, the workflow trains in {trainer.name}",
            trainer,
            "resume it with the workflow that made it, or start a new run",
        )
    iterations = int(trainer.options["iterations"])
    if iterations < saved.iteration:
        _refuse(
            f"iterations is {iterations}, the checkpoint is of iteration {saved.iteration} already",
            trainer,
            f"ask for more than {saved.iteration} iterations",
        )
    simulation = graph.of_kind("simulation")[0]
    environments = int(simulation.options["num_envs"])
    if plan.max_staleness == 0 and saved.positions and len(saved.positions) != environments:
        _refuse(
            f"num_envs is {environments}, the checkpoint keeps where {len(saved.positions)} environments stood",
            simulation,
            f"leave num_envs at {len(saved.positions)}; in step, results depend on every environment",
        )


def _refuse(message: str, node: Node, hint: str) -> None:
    raise CheckpointError(message, where=node.name, place=node.place, hint=hint)
