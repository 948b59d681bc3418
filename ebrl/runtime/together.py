"""Together: what the stages of a run do while all of them are at work, and what goes on between them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

import attrs
import psutil

from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.planner.costs import CPU
from ebrl.planner.explain import as_it_is, profiled_problem
from ebrl.planner.feedback import Measurement
from ebrl.planner.predict import simulation_work
from ebrl.planner.profile import Profile
from ebrl.planner.samples import summary
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.run import Run

ITERATIONS = 12
_STARTING = 4  # of them, in which things still start


@attrs.define(frozen=True, kw_only=True)
class Together:
    """Of the iterations after the first ones; without any where a run ends before."""

    measured: tuple[Measurement, ...] = ()
    batch: float = 0.0
    """Mean requests of a call of the generation."""
    others_core_s: float = 0.0
    """CPU time of all processes of the run beside what the stages needed, per chunk-step."""
    gather_s: float = 0.0
    publish_s: float = 0.0

    @staticmethod
    def of(run: Run) -> Together:
        """Let `run` go on for `ITERATIONS`."""
        name = run.graph.of_kind("generation")[0].name
        measured, batches, used, chunks = list[Measurement](), list[float](), list[float](), 0.0
        account = run.driver.account
        for number, iteration in enumerate(run.driver.iterations()):  # a run that stops is not over
            if number + 1 >= _STARTING:
                used.append(_tree_core_s() - sum(account.cpu_s.values()))
            if number >= _STARTING and account.measured is not None:
                measured.append(account.measured)
                batches.append(iteration.stats[f"{name}/batch_size"])
                chunks += account.measured.throughput * account.wall_s
            if number + 1 >= ITERATIONS:
                break
        if not measured:
            return Together()
        return Together(
            measured=tuple(measured),
            batch=sum(batches) / len(batches),
            others_core_s=max(0.0, used[-1] - used[0]) / chunks,
            gather_s=_quickest(account.gathering_s),
            publish_s=_quickest(account.publishing_s),
        )

    def ratios(self, alone: Profile, plan: Plan) -> dict[str, float]:
        """How many times as much CPU time each stage needed as alone."""
        if not self.measured:
            return {}
        cores = len(plan.of_kind("simulation").quota.cores)
        said: dict[str, float] = {}
        for name in alone.stages:
            table = alone.costs(name).on(CPU)
            assert table is not None
            if name == "simulation":
                said[name] = simulation_work(table, cores) / cores
            else:
                size = alone.iteration if name == "training" else max(1, round(self.batch))
                threads = plan.of_kind(name).quota.threads
                said[name] = table.core_s(threads, size) / size / threads
        seen = {name: _median([1.0 / getattr(row, f"{name}_rate") for row in self.measured]) for name in said}
        return {name: seen[name] / said[name] for name in said}

    def efficiency(self, graph: Graph, plan: Plan, beside: Profile) -> float:
        """What was reached over what `beside` predicts; 1 where either is not known."""
        if beside.missing or not self.measured:
            return 1.0
        # Every row is of as many chunk-steps.
        reached = len(self.measured) / sum(1.0 / row.throughput for row in self.measured)
        return reached / as_it_is(profiled_problem(graph, plan, ResourcePool.discover(), beside), plan).rate


def _median(samples: Sequence[float]) -> float:
    return summary(samples).p50_s if samples else 0.0


def _quickest(samples: Iterable[float]) -> float:
    """Others at work make what travels only slower, and a rehearsal knows when they are."""
    return min(samples, default=0.0)


def _tree_core_s() -> float:
    """CPU time of this process and all that descend from it; one that ends meanwhile counts no more."""
    total = 0.0
    for process in (psutil.Process(os.getpid()), *psutil.Process(os.getpid()).children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total
