"""Whether an allocation can be rehearsed: the costs of every stage are known where it is, and its memory fits there."""

from __future__ import annotations

import math

from ebrl.graph.schedules import HALVES, IN_TURN, Schedule
from ebrl.planner.costs import CPU
from ebrl.planner.problem import Allocation, Problem


def possible(problem: Problem, schedule: Schedule, allocation: Allocation) -> bool:
    """Where devices go from stage to stage in turn, each stage has all of their memory."""
    devices = {device.uuid: device for device in problem.devices}
    needs: dict[str, list[float]] = {uuid: [] for uuid in devices}
    for costs, shares, batch in (
        (problem.simulation, allocation.simulation, 1),
        (problem.generation, allocation.generation, allocation.batch),
        (problem.training, allocation.training, math.ceil(problem.iteration / max(1, len(allocation.training)))),
    ):
        if not shares and costs.on(CPU) is None:
            return False
        for uuid in shares:
            if (table := costs.on(devices[uuid].model)) is None:
                return False
            needs[uuid].append(table.memory_mib(batch))
    if problem.simulation.devices() and not allocation.simulation:
        return False
    together = max if schedule.devices in (IN_TURN, HALVES) else sum
    return all(together(held or [0.0]) <= devices[uuid].memory_mib for uuid, held in needs.items())
