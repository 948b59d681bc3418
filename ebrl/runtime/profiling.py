"""Profiling: a real run for its first iterations, then each of its stages alone, in the workers of that run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from ebrl.graph.model import Graph
from ebrl.planner.costs import CPU
from ebrl.planner.plans import chunks_per_iteration
from ebrl.planner.profile import P99, Measured, Profile, explore
from ebrl.planner.samples import summary
from ebrl.resources.pool import ResourcePool
from ebrl.runtime import tasks
from ebrl.runtime.described import described
from ebrl.runtime.run import Run, launch
from ebrl.runtime.together import ITERATIONS, Together

STAGES = ("simulation", "generation", "training")
NARROW = 0.03
"""Repeat until the median is known this well, in 95 of 100 cases."""
_MOST_CALLS = 400
_PER_POINT = 1 / 3
"""Of the time that a stage has left, a point may take so much: how many are to come is not known."""

Told = Callable[[str, Measured], None]


def profile(
    graph: Graph,
    *,
    stages: tuple[str, ...] = STAGES,
    budget_s: float = 120.0,
    on_point: Told = lambda stage, measured: None,
    on_phase: Callable[[str], None] = lambda phase: None,
    on_time: Callable[[float], None] = lambda used_s: None,
) -> Profile:
    """Measure what the stages of `graph` cost on this machine.

    budget_s: for all points together, after the workers have started and the pipeline has run; what is left of the
    grid then gets the fewest calls. on_point: hears of every point, on_phase: of what begins, on_time: how much of the
    budget is used. Raises what the run itself raises.
    """
    with _run(_longer(graph)) as run:
        on_phase("the whole pipeline")
        together = Together.of(run)
        ports = run.driver.pause()
        budget = Budget(began_s=time.monotonic(), seconds=budget_s)
        measuring = _Measuring(run, ports, budget, on_point, on_time)
        found: dict[str, tuple[Measured, ...]] = {}
        for number, stage in enumerate(stages):
            on_phase(stage)
            budget.divide(len(stages) - number)
            found[stage] = tuple(getattr(measuring, stage)())
        alone = _profile(run, found, together)
    beside = attrs.evolve(alone, together=together.ratios(alone, run.plan))
    return attrs.evolve(beside, efficiency=together.efficiency(graph, run.plan, beside))


@attrs.define(kw_only=True)
class Budget:
    """Time that measuring may take. What a stage leaves of its part is for the others."""

    began_s: float
    seconds: float
    clock: Callable[[], float] = time.monotonic
    _until_s: float = attrs.field(default=0.0, init=False)

    def divide(self, parts: int) -> None:
        """A stage begins, the first of `parts` that are left."""
        self._until_s = self.clock() + max(0.0, self.seconds - self.used_s) / parts

    def point(self) -> float:
        """Until when a point that begins now may be measured."""
        now_s = self.clock()
        return now_s + _PER_POINT * (self._until_s - now_s)

    @property
    def used_s(self) -> float:
        return self.clock() - self.began_s

    @property
    def spent(self) -> bool:
        """Whether the present stage has had its part."""
        return self.clock() > self._until_s


def _longer(graph: Graph) -> Graph:
    """`graph` with iterations for the whole pipeline, and one that is recorded and measured."""
    trainer = graph.of_kind("training")[0]
    iterations = max(int(trainer.options["iterations"]), ITERATIONS + 1)
    return attrs.evolve(
        graph,
        nodes={
            **graph.nodes,
            trainer.name: attrs.evolve(trainer, options={**trainer.options, "iterations": iterations}),
        },
    )


@contextmanager
def _run(graph: Graph) -> Iterator[Run]:
    """A run whose directory goes with it, and whose plan stays as it is."""
    with (
        TemporaryDirectory(prefix="ebrl-profile-") as folder,
        launch(graph, run_dir=Path(folder) / "run", replan=False) as run,
    ):
        yield run


@attrs.define
class _Measuring:
    """One method per stage; each explores its grid."""

    run: Run
    ports: dict[str, Any]
    budget: Budget
    on_point: Told
    on_time: Callable[[float], None]

    def simulation(self) -> list[Measured]:
        cores = self.run.plan.of_kind("simulation").quota.cores
        options = self.run.graph.of_kind("simulation")[0].options
        most = min(len(cores), int(options["num_envs"]))
        found: list[Measured] = []

        def rate(count: int) -> float:
            found.append(self._simulated(cores[:count], int(options["num_envs"])))
            return found[-1].rate

        explore(1, most, rate)
        return found

    def _simulated(self, cores: tuple[int, ...], windows: int) -> Measured:
        """Windows of all environments, again and again until the rate is known."""
        times, chunks, core_s, latencies, steps, memory = [], 0, 0.0, list[float](), list[float](), 0.0
        until_s = self.budget.point()
        self._ask("simulation", tasks.measure_simulation, cores, windows)  # resets and caches
        while True:
            recorded = self._ask("simulation", tasks.measure_simulation, cores, windows)
            times.append(recorded.wall_s / recorded.chunks)
            chunks, core_s = chunks + recorded.chunks, core_s + recorded.core_s
            latencies += recorded.latencies_s
            steps += recorded.steps_s
            memory = max(memory, recorded.memory_mib)
            if self._known(times, until_s):
                break
        median, latency, step = summary(times), summary(latencies), summary(steps)
        return self._told("simulation", Measured(
            resource=CPU, quota=len(cores), batch=1, rate=1 / median.p50_s, mean_s=latency.mean_s,
            p50_s=latency.p50_s, p99_s=latency.p99_s, seconds=median.p50_s, core_s=core_s / chunks,
            spread=max(0.0, math.log(step.p99_s / step.p50_s) / P99),
            memory_mib=memory, calls=chunks, interval=median.interval,
        ))  # fmt: skip

    def generation(self) -> list[Measured]:
        environments = int(self.run.graph.of_kind("simulation")[0].options["num_envs"])
        own = self.run.plan.of_kind("generation").quota
        return self._over_threads("generation", own.threads, lambda threads: (1, environments, self._calls_at(threads)))

    def _calls_at(self, threads: int) -> Callable[[int], Measured]:
        def measure(batch: int) -> Measured:
            return self._called("generation", batch, threads, lambda n: (tasks.measure_generation, batch, n, threads))

        return measure

    def training(self) -> list[Measured]:
        plan = self.run.plan
        windows, iteration = plan.of_kind("training").batch_size, chunks_per_iteration(self.run.graph, plan)

        def at(threads: int) -> Callable[[int], Measured]:
            def measure(items: int) -> Measured:
                chunks = max(1, round(iteration * items / windows))
                return self._called(
                    "training", chunks, threads, lambda n: (tasks.measure_training, self.ports, items, n, threads)
                )

            return measure

        low = max(1, windows // 2)
        return self._over_threads("training", plan.of_kind("training").quota.threads, lambda t: (low, windows, at(t)))

    def _over_threads(
        self, stage: str, planned: int, grid: Callable[[int], tuple[int, int, Callable[[int], Measured]]]
    ) -> list[Measured]:
        """All batch sizes with one thread, with those of the plan, and with more while that makes it faster."""
        most = len(self.run.plan.of_kind(stage).quota.cores)
        found: list[Measured] = []
        threads, best = 1, math.inf
        while threads <= most and not (found and self.budget.spent):
            row: list[Measured] = []
            low, high, measure = grid(threads)

            def seconds(batch: int, row: list[Measured] = row, measure: Any = measure) -> float:
                row.append(measure(batch))
                return row[-1].seconds

            explore(low, high, seconds)
            found += row
            fastest = max(row, key=lambda entry: entry.batch).seconds
            if threads >= planned and fastest > 0.9 * best:
                break
            best, threads = min(best, fastest), 2 * threads
        return found

    def _called(self, stage: str, batch: int, threads: int, question: Callable[[int], tuple[Any, ...]]) -> Measured:
        times: list[float] = []
        core_s, calls, memory = 0.0, 3, 0.0
        until_s = self.budget.point()
        self._ask(stage, *question(2))  # warms up
        while True:
            timed = self._ask(stage, *question(calls))
            times += timed.seconds
            core_s, memory = core_s + timed.core_s * calls, max(memory, timed.memory_mib)
            if self._known(times, until_s):
                break
            calls = min(4 * calls, 50)
        found = summary(times)
        return self._told(stage, Measured(
            resource=CPU, quota=threads, batch=batch, rate=batch / found.p50_s, mean_s=found.mean_s,
            p50_s=found.p50_s, p99_s=found.p99_s, seconds=found.p50_s, core_s=core_s / len(times),
            memory_mib=memory, calls=len(times), interval=found.interval,
        ))  # fmt: skip

    def _ask(self, stage: str, *question: Any) -> Any:
        return self.run.driver.ask(stage, *question)

    def _known(self, times: list[float], until_s: float) -> bool:
        self.on_time(self.budget.used_s)
        if len(times) < 3:
            return False
        late = self.budget.clock() > until_s
        return late or len(times) >= _MOST_CALLS or summary(times).interval <= NARROW

    def _told(self, stage: str, measured: Measured) -> Measured:
        self.on_point(stage, measured)
        return measured


def _profile(run: Run, found: dict[str, tuple[Measured, ...]], together: Together) -> Profile:
    return Profile(
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        stages=found,
        others_core_s=together.others_core_s,
        gather_s=together.gather_s,
        publish_s=together.publish_s,
        **described(run.graph, run.plan, ResourcePool.discover()),
    )
