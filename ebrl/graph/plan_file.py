"""Plans as files: read one that somebody edited, check that it fits, and say how two differ."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import attrs
from cattrs import Converter, transform_error

from ebrl.errors import PlanError, UsageError, did_you_mean
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan, StagePlan
from ebrl.graph.schedules import HALVES, IN_TURN, declared
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool


def read_plan(path: Path) -> Plan:
    """The plan in a ``plan.json``; UsageError, with the field at fault, where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the plan {path} cannot be read: {error.strerror}") from None
    try:
        return Converter(forbid_extra_keys=True).structure(json.loads(text), Plan)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", hint="every run keeps its plan in plan.json") from None
    except Exception as error:  # cattrs groups what it found
        raise UsageError(
            f"{path} is no plan", detail="\n".join(transform_error(error)), hint="start from a run's plan.json"
        ) from None


def check_plan(plan: Plan, graph: Graph, pool: ResourcePool) -> None:
    """Raise PlanError where `plan` is not one of `graph`, or names what this machine does not have."""
    names, known = [stage.name for stage in plan.stages], list(graph.nodes)
    for name in names:
        if name not in graph.nodes:
            raise PlanError(f"the plan has a stage {name!r}, the workflow has none", hint=did_you_mean(name, known))
    if missing := [name for name in known if name not in names]:
        raise PlanError(
            f"the plan lacks the stage {missing[0]!r} of the workflow", hint="make it again: ebrl plan --json"
        )
    if plan.groups < 1:
        raise PlanError(f"the plan says groups = {plan.groups}", hint="it must be 1 or more")
    for stage in plan.stages:
        _check_stage(stage, graph, pool)
    for gpu in pool.gpus:
        _check_gpu(plan, gpu)


def _check_stage(stage: StagePlan, graph: Graph, pool: ResourcePool) -> None:
    def refuse(message: str, hint: str) -> None:
        raise PlanError(f"the plan {message}", where=stage.name, place=graph.nodes[stage.name].place, hint=hint)

    quota, kind = stage.quota, graph.nodes[stage.name].stage.kind
    if stage.kind != kind:
        refuse(f"calls it a {stage.kind}, it is a {kind}", "leave the kind as it is")
    if not quota.cores or not set(quota.cores) <= set(pool.cores):
        refuse(f"gives it the cores {list(quota.cores)}", f"this machine has {list(pool.cores)}")
    if len(set(quota.cores)) < len(quota.cores):
        refuse(f"gives it a core twice: {list(quota.cores)}", "name every core once")
    known = {gpu.uuid for gpu in pool.gpus}
    if unknown := [uuid for uuid in quota.gpus if uuid not in known]:
        refuse(f"gives it the GPU {unknown[0]!r}", f"this machine has {', '.join(sorted(known)) or 'none'}")
    for field in ("sm_percent", "gpu_memory_mib"):
        if (told := getattr(quota, field)) and len(told) != len(quota.gpus):
            refuse(f"gives it {field} {list(told)} on {len(quota.gpus)} GPU(s)", "name one for each of its GPUs")
    if wrong := [percent for percent in quota.sm_percent if not 0 < percent <= 100]:
        refuse(f"gives it {wrong[0]} % of a GPU", "it must be 1 to 100")
    for name, value in {"batch_size": stage.batch_size, "replicas": stage.replicas, "threads": quota.threads}.items():
        if value < 1:
            refuse(f"says {name} = {value}", "it must be 1 or more")


def _check_gpu(plan: Plan, gpu: Gpu) -> None:
    """Stages that work at the same time divide the SMs of `gpu`: no cost table says how much more slowly a stage works
    on those that others use too. They divide its memory unless they take it in turn."""
    kinds = {stage.kind for stage in plan.stages}
    training, rollout = kinds & {"training"}, kinds - {"training"}
    in_step = (
        [rollout - {"simulation"}, rollout - {"generation"}] if plan.step_barrier and plan.groups == 1 else [rollout]
    )
    at_once = [part | training for part in in_step] if plan.max_staleness else [*in_step, training]
    in_turn = declared(plan.schedule, plan.without).devices in (IN_TURN, HALVES)
    for each in at_once:
        _check_together(plan, each, gpu, "sm_percent", "%", 100)
    for each in (rollout, training) if in_turn else (kinds,):
        _check_together(plan, each, gpu, "gpu_memory_mib", "MiB", gpu.memory_mib)


def _check_together(plan: Plan, kinds: Collection[str], gpu: Gpu, field: str, unit: str, most: int | None) -> None:
    asked = {stage.name: part for stage in plan.stages if stage.kind in kinds and (part := _part(stage, field, gpu))}
    if most is not None and sum(asked.values()) > most:
        parts = ", ".join(f"{name} {part}" for name, part in asked.items())
        raise PlanError(
            f"the plan asks for {sum(asked.values())} {unit} of the GPU {gpu.uuid}, which has {most}: {parts}",
            hint="give its stages less, or other GPUs",
        )


def _part(stage: StagePlan, field: str, gpu: Gpu) -> int:
    """What `stage` has of `gpu`; 0 where the plan does not say."""
    parts: dict[str, int] = dict(zip(stage.quota.gpus, getattr(stage.quota, field), strict=False))
    return parts.get(gpu.uuid, 0)


def differences(old: Plan, new: Plan) -> Iterator[str]:
    """One line for everything that `new` changes: ``generate: batch_size 1 -> 8``."""
    for name in ("workflow", "schedule", "without", "max_staleness", "step_barrier", "groups", "rebinding", "loops"):
        if (was := getattr(old, name)) != (becomes := getattr(new, name)):
            yield f"{name} {_text(was)} -> {_text(becomes)}"
    before, after = ({stage.name: stage for stage in plan.stages} for plan in (old, new))
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after or name not in before:
            yield f"{name}: {'only in the first' if name in before else 'only in the second'}"
            continue
        yield from (f"{name}: {line}" for line in _changes(before[name], after[name]))


def _changes(old: Any, new: Any) -> Iterator[str]:
    for field in attrs.fields(type(old)):
        was, becomes = getattr(old, field.name), getattr(new, field.name)
        if attrs.has(type(was)):
            yield from _changes(was, becomes)
        elif was != becomes:
            yield f"{field.name} {_text(was)} -> {_text(becomes)}"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value) or "none"
    return "none" if value is None else str(value)
