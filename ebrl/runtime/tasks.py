"""The functions that run as Dask tasks. Each finds, or first makes, the resident engine of its worker.

A task carries all that its worker needs to know: when a worker was killed, Dask gives its tasks to the
successor, where the first of them makes a new engine. What the driver must learn travels as events, in
the same stream as the news that the task is done; large results stay where they were made.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from distributed import get_worker

from ebrl.backends.protocols import SimulatorSpec
from ebrl.backends.registry import load_policy
from ebrl.errors import StageError
from ebrl.graph.items import Batch, Trajectory, Weights
from ebrl.graph.model import PolicyRef
from ebrl.runtime import bridge
from ebrl.runtime.assignment import Assignment, only
from ebrl.runtime.channel import address
from ebrl.runtime.hosting import Host
from ebrl.runtime.reporting import Report

E = TypeVar("E")
_residents: dict[str, Any] = {}
_lock = threading.Lock()
_MOST_BARREN = 20  # iterations without a trajectory, one after the other


def topic(run: str) -> str:
    return f"ebrl-{run}"


def warm(assignment: Assignment) -> None:
    """Import what the policy needs while the simulators start; torch takes seconds."""
    sys.path[:0] = [path for path in assignment.path if path not in sys.path]
    if (found := only(assignment.node(), PolicyRef)) is not None:
        load_policy(found[1].backend)


def probe(assignment: Assignment) -> SimulatorSpec:
    """Start the simulation engine; returns what its simulators declare."""
    spec: SimulatorSpec = _simulation(assignment, int((assignment.restored or {}).get("iteration", 0))).spec()
    return spec


def advance(assignment: Assignment, batch: int, count: int, min_version: int) -> list[Trajectory]:
    """Advance the resident simulators until `count` windows of `batch` are complete."""
    engine = _simulation(assignment, batch)
    trajectories: list[Trajectory] = engine.advance(batch, count, min_version)
    steps = sum(int(trajectory.steps.sum()) for trajectory in trajectories)
    _tell(assignment, "rollout", batch=batch, env_steps=steps, **engine.telemetry())
    return trajectories


def positions(assignment: Assignment, iteration: int) -> Mapping[int, Any]:
    """Where the environments stand."""
    found: Mapping[int, Any] = _simulation(assignment, iteration).positions()
    return found


def serve(assignment: Assignment, weights: Weights) -> int:
    """Serve the observation channels with `weights` until newer ones arrive; returns their version."""
    engine = _generation(assignment)
    engine.serve(weights)
    _tell(assignment, "generation", version=weights.version, **engine.telemetry())
    return weights.version


def first_weights(assignment: Assignment) -> Weights:
    """The weights that the run begins with: a checkpoint's, or those of a new policy."""
    host = _host(assignment)
    restored = assignment.restored
    if restored is not None:
        host.load(Weights.of(restored["iteration"], restored["weights"]))
    version = 0 if restored is None else int(restored["iteration"])
    weights = Weights.of(version, host.policy.weights())
    host.load(weights)
    return weights


def train(assignment: Assignment, iteration: int, ports: Mapping[str, Any]) -> Weights:
    """One training iteration; returns the weights of version ``iteration + 1``.

    Where the stages before it dropped every item there is nothing to learn: the weights stay as they are.
    """
    host = _host(assignment)
    if host.weights is None:
        raise _lost_trainer(assignment, iteration)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    versions = [
        int(version)
        for items in ports.values()
        if isinstance(items, list)
        for trajectory in items
        for version in trajectory.versions
    ]
    if versions:
        host.barren = 0
        result, report = host.reported(**_batches(ports))
        arrays = _arrays(assignment, result)
    else:
        host.barren += 1
        _stop_if_barren(assignment, host.barren)
        arrays, report = host.weights.arrays, Report()
    host.load(Weights.of(iteration + 1, arrays))
    _tell(
        assignment,
        "training",
        iteration=iteration,
        metrics=report.metrics | {"skipped": float(not versions)},
        stop=report.stop,
        train_s=time.monotonic() - began_s,
        cpu_s=time.process_time() - began_cpu_s,
        staleness_mean=iteration - sum(versions) / len(versions) if versions else 0.0,
        staleness_max=iteration - min(versions, default=iteration),
    )
    return host.weights


def _arrays(assignment: Assignment, result: Any) -> Mapping[str, Any]:
    if isinstance(result, Weights):
        return result.arrays
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
    return {name: Batch(items) if isinstance(items, list) else items for name, items in ports.items()}


def call(assignment: Assignment, iteration: int, ports: Mapping[str, Any]) -> Any:
    """One call of an item stage: per item where its port takes one, else with all of them."""
    host = _host(assignment)
    single = next(
        (port.name for port in host.node.stage.inputs if not port.batched and isinstance(ports[port.name], list)), None
    )
    inputs = _batches(ports)
    for value in ports.values():
        if isinstance(value, Weights):
            host.load(value)
    metrics: dict[str, float] = {}
    stop, results = None, []
    for item in ports[single] if single is not None else (None,):
        result, report = host.reported(**(inputs if single is None else inputs | {single: item}))
        metrics.update(report.metrics)
        stop = stop or report.stop
        results.extend(_items(result))
    _tell(assignment, "report", iteration=iteration, metrics=metrics, stop=stop)
    return results


def snapshot(assignment: Assignment) -> dict[str, Any]:
    """What a checkpoint keeps of a stage: the weights that it trained last, and its state."""
    host = _host(assignment)
    weights = None if host.weights is None else {name: array.copy() for name, array in host.weights.arrays.items()}
    return {"weights": weights, "state": host.state.save()}


def close() -> None:
    """End the engines of this worker."""
    with _lock:
        engines = list(_residents.values())
        _residents.clear()
    for engine in engines:
        engine.close()


def _simulation(assignment: Assignment, batch: int) -> Any:
    from ebrl.runtime.simulation import SimulationEngine

    worker = get_worker()

    def on_event(kind: str, **data: Any) -> None:
        worker.log_event(topic(assignment.run), {"kind": kind, **data})

    return _resident(assignment, lambda: SimulationEngine(assignment, on_event, first_batch=batch))


def _generation(assignment: Assignment) -> Any:
    from ebrl.runtime.generation import GenerationEngine, channels

    def make() -> GenerationEngine:
        for (source, elsewhere), local in zip(assignment.sources.items(), channels(assignment), strict=True):
            if elsewhere:
                bridge.reach(get_worker(), assignment.label + source, address(assignment.run, source), local)
        return GenerationEngine(assignment)

    return _resident(assignment, make)


def _host(assignment: Assignment) -> Host:
    return _resident(assignment, lambda: Host(assignment))


def _resident(assignment: Assignment, make: Callable[[], E]) -> E:
    key = f"{assignment.run}/{assignment.worker}"
    with _lock:
        if key not in _residents:
            sys.path[:0] = [path for path in assignment.path if path not in sys.path]
            _tell(assignment, "resident", pid=os.getpid())
            _residents[key] = make()
        engine: E = _residents[key]
        return engine


def _items(result: Any) -> list[Any]:
    """What a stage returned, as a list of items: None drops, an iterator gives several."""
    if result is None:
        return []
    if isinstance(result, Batch) or hasattr(result, "__next__"):
        return list(result)
    return [result]


def _tell(assignment: Assignment, kind: str, **data: Any) -> None:
    message = {"kind": kind, "stage": assignment.stage.name, "replica": assignment.worker, **data}
    get_worker().log_event(topic(assignment.run), message)


def _lost_trainer(assignment: Assignment, iteration: int) -> StageError:
    return StageError(
        f"its worker was lost before iteration {iteration}, and with it the weights in training",
        where=assignment.stage.name,
        hint="ebrl run --resume continues from the newest checkpoint",
    )
