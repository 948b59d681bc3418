"""Chunk latency: from the actions of a chunk to its end, with core rebinding and without, step by step."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from problems import case

from ebrl.graph.schedules import SCHEDULES
from ebrl.planner.allocate import allocate
from ebrl.planner.problem import SIMULATION, Allocation, Problem
from ebrl.rehearse.rehearsal import Rehearsal
from ebrl.rehearse.truth import TrueCosts

CONFIGURATIONS = ("libero_gr00t", "robocasa_openpi")
"""Those whose simulators need the cores most."""
ENVIRONMENTS_PER_CORE = (2.0, 4.0)
"""Beside what the configuration has."""
_STARTING, _ITERATIONS = 2, 3


@attrs.define(frozen=True, kw_only=True)
class Latencies:
    """Seconds: mean, P50, P99."""

    name: str
    per_core: float
    rebinding: tuple[float, float, float]
    fixed: tuple[float, float, float]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Without rebinding over with it."""
        return tuple(fixed / rebound for fixed, rebound in zip(self.fixed, self.rebinding, strict=True))

    @property
    def tail(self) -> float:
        """P99 over P50 with rebinding."""
        return self.rebinding[2] / self.rebinding[1]

    def plain(self) -> dict[str, Any]:
        return {**attrs.asdict(self), "ratios": self.ratios, "tail": self.tail}


def latencies(name: str, per_core: float | None) -> Latencies:
    """per_core: environments, if not as many as the configuration has; an iteration is a horizon of each."""
    cores = len(case(name, "grpo").problem.core_quotas[SIMULATION])
    environments = None if per_core is None else round(per_core * cores)
    found = case(name, "grpo", horizons=1, environments=environments)
    problem = found.problem
    allocation = allocate(problem).allocation
    rebinding, fixed = (
        _measured(problem, allocation, found.truth, steps=found.profile.chunk, without=without)
        for without in ((), ("rebinding",))
    )
    return Latencies(name=name, per_core=problem.environments / cores, rebinding=rebinding, fixed=fixed)


def _measured(
    problem: Problem, allocation: Allocation, truth: TrueCosts, *, steps: int, without: tuple[str, ...]
) -> tuple[float, float, float]:
    rehearsal = Rehearsal(problem, allocation, truth, schedule=SCHEDULES["ebrl"].without(*without), steps=steps, seed=1)
    rehearsal.run(_STARTING)
    taken: list[float] = []
    rehearsal.rollout.on_chunk = lambda environment, began_s: taken.append(rehearsal.now_s - began_s)
    rehearsal.run(_ITERATIONS)
    return float(np.mean(taken)), float(np.percentile(taken, 50)), float(np.percentile(taken, 99))
