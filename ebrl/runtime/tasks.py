"""The functions that run as Dask tasks. Each finds, or first makes, the resident engine of its worker.

A task carries all that its worker needs to know: when a worker was killed, Dask gives its tasks to the
successor, where the first of them makes a new engine. What the driver must learn travels as events, in
the same stream as the news that the task is done; large results stay where they were made.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from distributed import get_worker

from ebrl.backends.protocols import SimulatorSpec
from ebrl.backends.registry import load_policy
from ebrl.errors import StageError
from ebrl.graph.items import Batch, Trajectory, Weights
from ebrl.graph.model import PolicyRef
from ebrl.observe import video
from ebrl.runtime import bridge
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.channel import address
from ebrl.runtime.death import WorkerLost
from ebrl.runtime.hosting import Calls, Host, find_modules
from ebrl.runtime.reporting import Report
from ebrl.runtime.travelling import news, task

if TYPE_CHECKING:
    from ebrl.runtime.simulation import Recorded

E = TypeVar("E")
_residents: dict[str, Any] = {}
_lock = threading.Lock()
_MOST_BARREN = 20  # iterations without a trajectory, one after the other


def topic(run: str) -> str:
    return f"ebrl-{run}"


@task
def warm(assignment: Assignment) -> None:
    """Import what the policy needs while the simulators start; torch takes seconds."""
    find_modules(assignment)
    node = assignment.node()
    if (found := node.reference(PolicyRef)) is not None:
        load_policy(found[1].backend)
    if node.values.get("record_video"):  # better missed now than at the first evaluation, after hours
        video.require()


@task
def probe(assignment: Assignment, iteration: int) -> SimulatorSpec:
    """Start the simulation engine; returns what its simulators declare."""
    from ebrl.runtime.simulation import interpreter_for

    spec: SimulatorSpec = _simulation(assignment, iteration).spec()
    if notice := interpreter_for(assignment.node()).notice:
        _tell(assignment, "warning", iteration=iteration, message=notice)
    return spec


@task
def advance(assignment: Assignment, batch: int, count: int, min_version: int) -> list[Trajectory]:
    """Advance the resident simulators until `count` windows of `batch` are complete."""
    trajectories, telemetry = _simulation(assignment, batch).advance(batch, count, min_version)
    steps = sum(int(trajectory.steps.sum()) for trajectory in trajectories)
    chunks = sum(len(trajectory.versions) for trajectory in trajectories)
    ended_s = time.monotonic()
    _tell(assignment, "rollout", batch=batch, env_steps=steps, chunks=chunks, ended_s=ended_s, **telemetry)
    kept: list[Trajectory] = trajectories
    return kept


@task
def positions(assignment: Assignment, iteration: int) -> Mapping[int, Any]:
    """Where the environments stand."""
    found: Mapping[int, Any] = _simulation(assignment, iteration).positions()
    return found


@task
def serve(assignment: Assignment, weights: Weights) -> int:
    """Serve the observation channels with `weights` until newer ones arrive; returns their version."""
    telemetry = _generation(assignment).serve(weights)
    if telemetry is not None:
        _tell(assignment, "generation", **telemetry)
    return weights.version


@task
def measure_generation(assignment: Assignment, batch: int, calls: int, threads: int) -> Calls:
    """Time calls of a generation, which serves nothing meanwhile."""
    timed: Calls = _generation(assignment).measure(batch, calls, threads)
    return timed


@task
def measure_simulation(assignment: Assignment, cores: Sequence[int], windows: int) -> Recorded:
    """Let the simulators record `windows` windows on `cores` alone, with random actions."""
    recorded: Recorded = _simulation(assignment, 0).measure(cores, windows)
    return recorded


@task
def measure_training(assignment: Assignment, ports: Mapping[str, Any], items: int, calls: int, threads: int) -> Calls:
    """Time training calls on the first `items` items of `ports`.

    Each begins with the same policy: trained on the same items again and again it would diverge, and items would
    become too stale to be used.
    """
    host = _host(assignment)
    inputs = _batches(ports)
    some = {name: Batch(list(value)[:items]) if isinstance(value, Batch) else value for name, value in inputs.items()}
    timed: Calls = host.timed(lambda: host.reported(**some), calls, threads, after=host.rewinding())
    return timed


@task
def retune(assignment: Assignment) -> None:
    """Let the resident engine of this worker follow the new plan that `assignment` tells of."""
    engine = _residents.get(f"{assignment.run}/{assignment.worker}")
    if engine is not None:  # else the task that makes it carries the plan
        engine.retune(assignment)


@task
def first_weights(assignment: Assignment, saved: Weights | None) -> Weights:
    """The weights that the run begins with: those of its checkpoint, or of a new policy."""
    host = _host(assignment)
    if saved is not None:
        host.load(saved)
    weights = Weights.of(0 if saved is None else saved.version, host.policy.weights())
    host.load(weights)
    return weights


@task
def train(assignment: Assignment, iteration: int, ports: Mapping[str, Any]) -> Weights:
    """One training iteration; returns the weights of version ``iteration + 1``.

    Where the stages before it dropped every item there is nothing to learn: the weights stay as they are.
    """
    host = _host(assignment)
    if host.weights is None or host.weights.version != iteration:
        raise _lost_trainer(assignment, iteration)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    inputs = _batches(ports)
    items = [item for value in inputs.values() if isinstance(value, Batch) for item in value]
    versions = [int(version) for item in items if isinstance(item, Trajectory) for version in item.versions]
    if items:
        host.barren = 0
        host.state["version"] = iteration
        result, report = host.reported(**inputs)
        trained = _trained(assignment, iteration, result)
        host.weights = Weights(iteration + 1, trained.arrays, trained.checksum)
    else:
        host.barren += 1
        _stop_if_barren(assignment, host.barren)
        report = Report()
        host.weights = Weights(iteration + 1, host.weights.arrays, host.weights.checksum)
    _tell(
        assignment,
        "training",
        iteration=iteration,
        metrics=report.metrics | {"skipped": float(not items)},
        stop=report.stop,
        began_s=began_s,
        train_s=time.monotonic() - began_s,
        cpu_s=time.process_time() - began_cpu_s,
        threads=assignment.stage.quota.threads,
        staleness_mean=iteration - sum(versions) / len(versions) if versions else 0.0,
        staleness_max=iteration - min(versions, default=iteration),
    )
    return host.weights


def _trained(assignment: Assignment, iteration: int, result: Any) -> Weights:
    if isinstance(result, Weights):
        for name, array in result.arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise StageError(
                    f"the weights {name!r} are not finite after iteration {iteration}",
                    where=assignment.stage.name,
                    hint="lower the learning rate, or continue from the newest checkpoint with other settings",
                )
        return result
    raise StageError(
        f"returned {type(result).__name__}; expected Weights",
        where=assignment.stage.name,
        hint="end the stage with: return ebrl.Weights.of(0, policy.weights()); the engine counts the versions",
    )


def _stop_if_barren(assignment: Assignment, barren: int) -> None:
    if barren >= _MOST_BARREN:
        raise StageError(
            f"got no trajectory in {barren} iterations in a row",
            where=assignment.stage.name,
            hint="the stages before it drop every item; see their reports in metrics.jsonl",
        )


def _batches(ports: Mapping[str, Any]) -> dict[str, Any]:
    """Streams arrive as one list of items per replica that made them."""
    return {
        name: Batch([item for items in value for item in items]) if isinstance(value, list) else value
        for name, value in ports.items()
    }


@task
def call(assignment: Assignment, iteration: int, ports: Mapping[str, Any]) -> list[Any]:
    """One call of an item stage: per item where its port takes one, else with all of them."""
    host = _host(assignment)
    inputs = _batches(ports)
    single = next(
        (port.name for port in host.node.stage.inputs if not port.batched and isinstance(inputs.get(port.name), Batch)),
        None,
    )
    for value in inputs.values():
        if isinstance(value, Weights):
            host.load(value)
    results, reports = [], []
    for item in inputs[single] if single is not None else (None,):
        result, report = host.reported(**(inputs if single is None else inputs | {single: item}))
        results.extend(_items(assignment, host, result))
        reports.append(report)
    for kind, data in [event for report in reports for event in report.events]:
        _tell(assignment, kind, iteration=iteration, **data)
    stop = next((report.stop for report in reports if report.stop), None)
    _tell(assignment, "report", iteration=iteration, metrics=_mean_metrics(reports), stop=stop)
    return results


def _mean_metrics(reports: Sequence[Report]) -> dict[str, float]:
    """Per metric, the mean over the items that reported it."""
    values: dict[str, list[float]] = {}
    for report in reports:
        for name, value in report.metrics.items():
            values.setdefault(name, []).append(value)
    return {name: sum(found) / len(found) for name, found in values.items()}


@task
def snapshot(assignment: Assignment) -> bytes:
    """What a checkpoint keeps of a stage, pickled here: its next call changes the objects in place."""
    host = _host(assignment)
    weights = host.weights
    return pickle.dumps(
        {
            "version": None if weights is None else weights.version,
            "weights": None if weights is None else weights.arrays,
            "state": host.state.save(),
        }
    )


def close() -> None:
    """End the engines of this worker. Takes no lock: one that is being made may take minutes."""
    for key in list(_residents):
        _residents.pop(key).close()


def _simulation(assignment: Assignment, batch: int) -> Any:
    from ebrl.runtime.simulation import SimulationEngine

    return _resident(assignment, lambda: SimulationEngine(assignment, _lost_teller(assignment), first_batch=batch))


def _generation(assignment: Assignment) -> Any:
    from ebrl.runtime.generation import GenerationEngine, channels

    def make() -> GenerationEngine:
        for (source, elsewhere), local in zip(assignment.sources.items(), channels(assignment), strict=True):
            if elsewhere:
                bridge.reach(get_worker(), assignment.label + source, address(assignment.run, source), local)
        return GenerationEngine(assignment)

    return _resident(assignment, make)


def _host(assignment: Assignment) -> Host:
    return _resident(assignment, lambda: Host(assignment, _lost_teller(assignment)))


def _resident(assignment: Assignment, make: Callable[[], E]) -> E:
    key = f"{assignment.run}/{assignment.worker}"
    with _lock:
        if key not in _residents:
            find_modules(assignment)
            _tell(assignment, "resident", pid=os.getpid())
            _residents[key] = make()
        engine: E = _residents[key]
        return engine


def _items(assignment: Assignment, host: Host, result: Any) -> list[Any]:
    """What a stage returned, as a list of items: None drops, a Batch or an iterator gives several."""
    outputs = host.node.stage.outputs
    items = [] if result is None else list(result) if isinstance(result, Batch) else [result]
    wanted = outputs[0].item if outputs else None
    for item in items:
        if isinstance(wanted, type) and not isinstance(item, wanted):
            raise StageError(
                f"returned {type(item).__name__}; expected {wanted.__name__} or None",
                where=f"{assignment.stage.name}.{outputs[0].name}",
                place=host.node.stage.place,
            )
    return items


def _lost_teller(assignment: Assignment) -> Callable[[dict[str, Any]], None]:
    """Tells the driver of a lost environment, from whatever thread notices it."""
    worker, stage = get_worker(), assignment.stage.name

    def tell(lost: dict[str, Any]) -> None:
        worker.log_event(topic(assignment.run), news({"kind": "environment_lost", "stage": stage, **lost}))

    return tell


def _tell(assignment: Assignment, kind: str, **data: Any) -> None:
    message = {"kind": kind, "stage": assignment.stage.name, "replica": assignment.worker, **data}
    get_worker().log_event(topic(assignment.run), news(message))


def _lost_trainer(assignment: Assignment, iteration: int) -> WorkerLost:
    return WorkerLost(
        f"its worker was lost before iteration {iteration}, and with it the weights in training",
        where=assignment.stage.name,
        hint="ebrl run --resume continues from the newest checkpoint",
    )
