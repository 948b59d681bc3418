"""A rehearsal: a run in virtual time. The same decision objects, on what the stages really cost.

What is simpler than in a run: several machines count as one, whose cores all stages share fairly (core quotas only
bound how many environments run at a time); what travels takes the same time always;
nothing fails; unless told the control steps of a chunk, an environment keeps its core for a whole one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import attrs

from ebrl.graph.schedules import HALVES, IN_TURN, SCHEDULES, Schedule
from ebrl.planner.feedback import Decision, FeedbackPlanner, Measurement
from ebrl.planner.predict import usable_cores
from ebrl.planner.problem import SIMULATION, Allocation, Problem
from ebrl.rehearse.clock import Clock
from ebrl.rehearse.device_parts import DeviceParts
from ebrl.rehearse.generation import Generation
from ebrl.rehearse.rollout import Rollout
from ebrl.rehearse.training import Training
from ebrl.rehearse.truth import Draws, TrueCosts
from ebrl.rehearse.usage import State, Usage
from ebrl.schedule.admission import Admission

_ENDLESS = 1 << 60


@attrs.define(frozen=True, kw_only=True)
class Step:
    """One training iteration."""

    index: int
    end_s: float
    """Virtual time."""
    wall_s: float
    """Since the end of the iteration before."""
    measured: Measurement
    staleness: float
    """Mean over the chunks that it trained on."""
    most_stale: int
    by_staleness: Mapping[int, int]
    """Staleness -> of those chunks."""
    allocation: Allocation
    """In force until its end."""
    decisions: tuple[Decision, ...] = ()
    """What the planner said at its end."""


class Rehearsal:
    """`run` as often as you like; it goes on where it was.

    truth: what the stages cost; drift: what they cost from some training step on. planner: changes the allocation
    under way. change_s: for how long devices do nothing where their shares change. steps: control steps of a chunk,
    between which cores may change hands. Where devices go from stage to stage in turn, each may have all of them in
    `allocation`.
    """

    def __init__(
        self,
        problem: Problem,
        allocation: Allocation,
        truth: TrueCosts,
        *,
        drift: Mapping[int, TrueCosts] | None = None,
        planner: FeedbackPlanner | None = None,
        schedule: Schedule = SCHEDULES["ebrl"],
        change_s: float = 0.0,
        steps: int = 1,
        seed: int = 0,
    ) -> None:
        if problem.iteration % problem.window:
            raise ValueError(
                f"an iteration of {problem.iteration} chunk-steps has no whole windows of {problem.window}"
            )
        self.problem, self.allocation, self.version, self.steps = problem, allocation, 0, list[Step]()
        self._drift, self._planner, self._change_s = dict(drift or {}), planner, change_s
        self._windows = problem.iteration // problem.window
        self._clock, self._draws = Clock(), Draws(seed, truth)
        self._cores = cores = self._clock.cores(len(problem.cores))
        self._overlaps = schedule.overlap and not problem.barriers
        staleness = problem.max_staleness if self._overlaps else 0
        self._in_turn = schedule.devices in (IN_TURN, HALVES)
        self._admission = Admission(max_staleness=staleness, iterations=_ENDLESS)
        self.rollout = Rollout(
            self._clock,
            cores,
            self._draws,
            environments=problem.environments,
            slots=len(usable_cores(problem, allocation)[SIMULATION]),
            window=problem.window,
            steps=steps,
            batch_size=allocation.batch,
            schedule=schedule,
            devices=(devices := DeviceParts(self._clock, self._draws)),
            on_batch=self._rolled,
        )
        self.generation = self.rollout.actor = Generation(self._clock, cores, self._draws, self.rollout)
        self.training = Training(self._clock, cores, self._draws, problem.iteration)
        devices.use(problem, allocation)
        self.devices, self._transfers = devices, 0
        self.on_transfer: Callable[[float], None] = lambda began_s: None
        """Hears when weights have travelled, or devices have changed hands, and since when they did."""
        self._complete: dict[int, list[int]] = {}
        self.usage = Usage(self)
        self._clock.on_passing = self.usage.passed
        self._simulation_rate = 0.0
        self._use(allocation, pause_s=0.0)

    @property
    def now_s(self) -> float:
        return self._clock.now_s

    def run(self, steps: int) -> list[Step]:
        """The next so many training iterations."""
        if not self._admission.granted:
            self.rollout.start()
            self._pump()
        until = self.version + steps
        while self.version < until:
            if not self._clock.advance():
                raise RuntimeError(f"nothing happens any more after training step {self.version}")
        return self.steps[-steps:]

    def change(self, allocation: Allocation) -> None:
        """Go on with another allocation from now on."""
        moved = (allocation.generation, allocation.training) != (self.allocation.generation, self.allocation.training)
        self._use(allocation, self._change_s if moved else 0.0)

    def _use(self, allocation: Allocation, pause_s: float) -> None:
        self.allocation = allocation
        self.generation.use(self.problem, allocation, pause_s)
        self.training.use(self.problem, allocation, pause_s)
        slots = len(usable_cores(self.problem, allocation)[SIMULATION])
        self.rollout.retune(slots=slots, batch_size=allocation.batch)

    def _pump(self) -> None:
        for batch in self._admission.grant(self.version):
            self.rollout.admit(batch, self._windows, self._admission.min_version(batch))
        if not self.training.busy and self.version in self._complete:
            versions = self._complete.pop(self.version)
            swap_s = self._draws.costs.swap_s if self._in_turn else 0.0
            self._transfer(swap_s, lambda: self.training.begin(lambda: self._trained(versions)))

    def _transfer(self, seconds: float, call: Callable[[], None]) -> None:
        """`call` when weights have travelled, or devices have changed hands."""
        if not seconds:
            call()
            return
        self._transfers += 1
        began_s = self.now_s

        def over() -> None:
            self._transfers -= 1
            self.on_transfer(began_s)
            call()

        self._clock.after(seconds, over)

    def state(self) -> State:
        """For `usage`."""
        rollout, generation = self.rollout, self.generation
        held = generation.held
        return State(
            cores=self._cores.count,
            cores_busy=self._cores.busy,
            at_barriers=rollout.requests.at_barriers,
            asked=rollout.requests.unanswered - held,
            held=held,
            idle=rollout.idle,
            ready=rollout.dispatcher.waiting,
            replicas=generation.replicas,
            replicas_busy=generation.busy,
            training_busy=self.training.busy,
            shares=self.devices.shares,
            shares_busy=self.devices.busy,
            on_devices=self.devices.queued,
            turns=not self._overlaps,
            transfer=self._transfers > 0,
        )

    def _rolled(self, batch: int, versions: list[int]) -> None:
        """A batch is complete; the other stages see it before it trains."""

        def seen() -> None:
            self._complete[batch] = versions
            self._pump()

        core_s = self.problem.others_core_s * self.problem.iteration
        if gather_s := self._draws.costs.gather_s:  # that of the others on its way is part of it
            self._cores.run(core_s, lambda: None)
            self._transfer(gather_s, seen)
        elif core_s:
            self._cores.run(core_s, seen)
        else:
            self._clock.after(0.0, seen)

    def _trained(self, versions: list[int]) -> None:
        index = self.version
        self.version += 1
        swap_s = self._draws.costs.swap_s if self._in_turn else 0.0
        version = self.version
        self._transfer(swap_s + self._draws.costs.publish_s, lambda: self.generation.published(version))
        wall_s = self.now_s - (self.steps[-1].end_s if self.steps else 0.0)
        measured, used = self._measured(wall_s), self.allocation
        if (costs := self._drift.get(self.version)) is not None:
            self._draws.become(costs)
        decisions = tuple(self._planner.observe(measured)) if self._planner is not None else ()
        for decision in decisions:
            if decision.kind in ("replan", "revert"):
                self.change(decision.new)
        self.steps.append(
            Step(
                index=index,
                end_s=self.now_s,
                wall_s=wall_s,
                measured=measured,
                staleness=index - sum(versions) / len(versions),
                most_stale=index - min(versions),
                by_staleness=Counter(index - version for version in versions),
                allocation=used,
                decisions=decisions,
            )
        )
        self._pump()

    def _measured(self, wall_s: float) -> Measurement:
        counts = self.rollout.take_counts()
        if counts.chunks:
            self._simulation_rate = len(self.rollout.dispatcher.cores) * counts.chunks / max(counts.core_s, 1e-12)
        generation_rate, batch = self.generation.rates()
        return Measurement(
            throughput=self.problem.iteration / wall_s,
            simulation_rate=self._simulation_rate,
            generation_rate=generation_rate,
            training_rate=self.training.rate,
            batch=batch,
        )


def throughput(steps: list[Step]) -> float:
    """Chunk-steps per second over `steps`."""
    return sum(step.measured.throughput * step.wall_s for step in steps) / sum(step.wall_s for step in steps)
