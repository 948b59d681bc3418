"""Checkpoints: everything a run needs to go on, written so that a half-written one is never found."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from safetensors.numpy import load_file, save_file

from ebrl.errors import CheckpointError
from ebrl.graph.items import Array, checksum

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
    """Write ``folder/<iteration>``; keeps the newest three. Returns its path."""
    final = folder / f"{checkpoint.iteration:06d}"
    partial = folder / f".{final.name}-{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
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
    for old in sorted(path for path in folder.iterdir() if path.name.isdigit())[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def newest(folder: Path, workflow: str) -> Checkpoint:
    """The newest checkpoint below `folder`; CheckpointError where there is none or it is damaged."""
    found = sorted(path for path in folder.glob("[0-9]*") if (path / "checkpoint.json").exists())
    if not found:
        raise CheckpointError(
            f"no checkpoint in {folder}", hint="the run ended before its first checkpoint; start it again"
        )
    path = found[-1]
    try:
        about = json.loads((path / "checkpoint.json").read_text())
        weights = load_file(path / "weights.safetensors")
        with open(path / "state.pkl", "rb") as file:
            state = pickle.load(file)
        about["workflow"], about["iteration"], about["weights_checksum"], about["counters"]
        state["states"], state["positions"]
    except Exception as error:
        raise CheckpointError(
            f"{path} is damaged: {error}", hint=f"remove it to use an earlier one: {folder}"
        ) from None
    if about["workflow"] != workflow:
        raise CheckpointError(f"{path} belongs to workflow '{about['workflow']}', not to '{workflow}'")
    if checksum(weights) != about["weights_checksum"]:
        raise CheckpointError(f"the weights in {path} are damaged", hint=f"remove it to use an earlier one: {folder}")
    return Checkpoint(
        workflow=workflow,
        iteration=about["iteration"],
        weights=weights,
        states=state["states"],
        counters=about["counters"],
        positions=state["positions"],
    )
