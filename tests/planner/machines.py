"""Machines that the planner's tests plan for: small problems, and what a run on one would measure."""

from __future__ import annotations

import attrs

from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.feedback import Measurement
from ebrl.planner.predict import generation_rate, predict, simulation_work, training_rate, usable_cores
from ebrl.planner.problem import SIMULATION, Allocation, Device, Node, Problem


def straight(resource: str, fixed_s: float, item_s: float, host_s: float = 0.0, memory_mib: float = 0.0) -> StageCosts:
    """Costs that grow with the batch, and on a device fall with the share of its SMs."""
    device = resource != CPU
    points = tuple(
        Point(
            quota=quota,
            batch=batch,
            seconds=(took := (fixed_s + item_s * batch) * ((100 / quota) ** 0.7 if device else 1)),
            core_s=host_s if device else took,
            memory_mib=memory_mib,
        )
        for quota in ((25, 50, 100) if device else (1,))
        for batch in (1, 8, 64)
    )
    return StageCosts(tables={resource: CostTable(points=points)})


def chunks(seconds: float) -> StageCosts:
    """A chunk-step on one core."""
    return StageCosts(tables={CPU: CostTable(points=(Point(quota=1, batch=1, seconds=seconds, core_s=seconds),))})


def on_cores(cores: int = 2, **changes: object) -> Problem:
    """Chunks of 10 ms, generation calls of 1 ms, training of 1 ms per chunk-step, all on the same cores."""
    settings: dict[str, object] = {
        "nodes": (Node(cores=tuple(range(cores))),),
        "simulation": chunks(0.010),
        "generation": straight(CPU, 0.001, 0.0),
        "training": straight(CPU, 0.0, 0.001),
        "environments": 8,
        "iteration": 64,
        **changes,
    }
    return Problem(**settings)  # type: ignore[arg-type]


def on_devices(devices: int = 4, cores: int = 32, **changes: object) -> Problem:
    """Equal devices for generation and training; simulation on plenty of cores."""
    named = tuple(Device(uuid=f"GPU-{number}", model="gpu", memory_mib=80_000) for number in range(devices))
    settings: dict[str, object] = {
        "nodes": (Node(cores=tuple(range(cores)), devices=named),),
        "simulation": chunks(0.3),
        "generation": straight("gpu", 0.1, 0.02),
        "training": straight("gpu", 0.3, 0.024),
        "environments": 64,
        "iteration": 256,
        **changes,
    }
    return on_cores(**settings)  # type: ignore[arg-type]


def measured(truth: Problem, allocation: Allocation) -> Measurement:
    """What a step on a machine with the costs of `truth` shows without any noise."""
    cores = len(usable_cores(truth, allocation)[SIMULATION])
    return Measurement(
        throughput=predict(truth, allocation).rate,
        simulation_rate=cores / simulation_work(truth.simulation.on(CPU), min(cores, truth.environments)),
        generation_rate=generation_rate(truth, allocation)[0],
        training_rate=training_rate(truth, allocation),
    )


def drifted(problem: Problem, **scales: float) -> Problem:
    """The machine where a call of these stages takes so many times as long."""
    return attrs.evolve(problem, **{name: getattr(problem, name).corrected(scale) for name, scale in scales.items()})
