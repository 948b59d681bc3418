"""The feedback planner: measured rates in, new allocations out. It corrects the cost tables and solves again.

A step is one training iteration. Rates are averaged over 20 steps; a gap between rollout and training above 15 % of
the faster for 20 steps in a row makes it look for a better allocation (EBRL, section on the feedback planner). Beyond
the paper it weighs the gain against what the change costs, waits after every change, tells what the change really
brought, takes it back where it made things worse by more than noise, and never returns to an allocation that it has
left while costs are about what they were then. So it cannot swing to and fro. Nor does it solve again what it has
solved: where nothing better was found, it stays quiet until costs are others.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection, Mapping, Sequence

import attrs

from ebrl.planner.allocate import SLACK, Answer, allocate
from ebrl.planner.costs import CPU
from ebrl.planner.predict import (
    Prediction,
    generation_rate,
    predict,
    simulation_work,
    training_rate,
    usable_cores,
)
from ebrl.planner.problem import GENERATION, SIMULATION, TRAINING, Allocation, Problem


@attrs.define(frozen=True, kw_only=True)
class Measurement:
    """What one step showed. Rates are in chunk-steps/s, of the time that a stage worked: what it could do."""

    throughput: float
    """Chunk-steps that were trained on, per second of wall time."""
    simulation_rate: float
    generation_rate: float
    training_rate: float
    batch: float = 0.0
    """Mean requests of the generation calls behind `generation_rate`; 0 where that is not known. While cores are
    hungry, calls are smaller than planned, and so is the rate that they show."""

    @property
    def rollout_rate(self) -> float:
        return min(self.simulation_rate, self.generation_rate)

    @property
    def gap(self) -> float:
        """Between rollout and training, as a share of the faster."""
        rates = self.rollout_rate, self.training_rate
        return (max(rates) - min(rates)) / max(*rates, 1e-12)


def mean(seen: Collection[Measurement]) -> Measurement:
    """Of rates that is the harmonic mean, as every step did the same work."""
    batches = [entry.batch for entry in seen]
    return Measurement(
        batch=statistics.fmean(batches) if all(batches) else 0.0,
        **{
            name: 1.0 / statistics.fmean(1.0 / max(getattr(entry, name), 1e-12) for entry in seen)
            for name in ("throughput", "simulation_rate", "generation_rate", "training_rate")
        },
    )


@attrs.define(frozen=True, kw_only=True)
class Decision:
    """One event of the planner, with the numbers behind it."""

    kind: str
    """``replan``: `new` shall be used from now on. ``kept``: nothing better was found, or not worth its cost.
    ``outcome``: what the last ``replan`` brought. ``revert``: it made things worse, so `new` is the one before it."""
    step: int
    measured: Measurement
    """Averages over the window."""
    old: Allocation
    new: Allocation
    corrections: Mapping[str, float] = attrs.field(factory=dict)
    """Stage -> how many times as long as its table says it takes by now."""
    predicted: float = 0.0
    """Chunk-steps/s of `old` under the corrected tables."""
    predicted_new: float = 0.0
    bottleneck: str = ""
    """Of `new`."""
    predicted_gain: float = 0.0
    cost_s: float = 0.0
    """What the change takes."""
    achieved_gain: float | None = None
    """Measured throughput after the change over that before, minus 1."""
    reason: str = ""


@attrs.define(kw_only=True)
class FeedbackPlanner:
    """`observe` every step; carry out what it answers with kind ``replan`` or ``revert``."""

    problem: Problem
    allocation: Allocation
    """The one in force."""
    steps_left: int = 1_000_000
    """Steps that the run still has: a change must pay within them."""
    change_s: float = 0.0
    """What a change of the shares of devices costs; of batch, threads and cores it is nothing."""
    window: int = 20
    gap: float = 0.15
    patience: int = 20
    cooldown: int = 40
    min_gain: float = 0.04
    worse: float = 0.03
    """A change that costs so much of the throughput is taken back, unless twice the standard error of the
    measurement is more."""
    settle: int = 3
    """Steps after a change that nothing is learned from: they hold its pause, and batches of before."""
    generation_replicas: int = 1
    _said: Problem = attrs.field(init=False)  # the tables before any correction
    _recent: deque[Measurement] = attrs.field(init=False)
    _step: int = attrs.field(default=0, init=False)
    _gaps: int = attrs.field(default=0, init=False)
    _settling: int = attrs.field(default=0, init=False)
    _kept: dict[str, float] | None = attrs.field(default=None, init=False)  # corrections when nothing better was found
    _quiet_until: int = attrs.field(default=0, init=False)
    _error_before: float = attrs.field(default=0.0, init=False)
    _trial: Decision | None = attrs.field(default=None, init=False)
    _left: list[tuple[Allocation, dict[str, float]]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._recent = deque(maxlen=self.window)
        self._said = self.problem

    def observe(self, measured: Measurement) -> list[Decision]:
        """Decisions of this step, most often none."""
        self._step += 1
        self.steps_left -= 1
        if self._settling:
            self._settling -= 1
            return []
        self._recent.append(measured)
        average = mean(self._recent)
        self._gaps = self._gaps + 1 if self._with_full_batches(average).gap > self.gap else 0
        if len(self._recent) < self.window:
            return []
        if self._trial is not None:
            return self._judge(self._trial, average)
        if self._gaps < self.patience or self._step < self._quiet_until:
            return []
        corrections = self._corrections(average)
        if self._kept is not None and self._alike(corrections, self._kept, self.gap / 2):
            return []
        return [self._decide(average, corrections)]

    def begin(self, seen: Sequence[Measurement], step: int) -> Decision:
        """The first decision, without waiting for a gap: tables were just made of `seen`, under this allocation."""
        self._step = step
        self._recent.extend(seen)
        return self._decide(mean(seen), dict.fromkeys((SIMULATION, GENERATION, TRAINING), 1.0))

    def _decide(self, measured: Measurement, corrections: dict[str, float]) -> Decision:
        self._correct(corrections)
        self._quiet_until = self._step + self.cooldown
        now = predict(self.problem, self.allocation)
        answer = allocate(self.problem, generation_replicas=self.generation_replicas, slack=SLACK)
        decision = self._decision("replan", measured, answer, now, corrections)
        if reason := self._objection(decision, corrections):
            self._kept = corrections
            return attrs.evolve(decision, kind="kept", new=self.allocation, reason=reason)
        self._left.append((self.allocation, corrections))
        self._error_before = self._error
        self._adopt(decision.new)
        self._trial = decision
        return decision

    def _objection(self, decision: Decision, corrections: Mapping[str, float]) -> str:
        """Why the change is not worth it; empty where it is."""
        if decision.predicted_gain < self.min_gain:
            return f"the best allocation gains {max(decision.predicted_gain, 0.0):.1%}, less than {self.min_gain:.0%}"
        if any(decision.new == left and self._alike(corrections, then, self.gap) for left, then in self._left):
            return "this allocation was left before, and costs are what they were then"
        step_s = self.problem.iteration / max(decision.measured.throughput, 1e-12)
        saved_s = self.steps_left * step_s * decision.predicted_gain / (1 + decision.predicted_gain)
        if saved_s <= decision.cost_s:
            return f"it would save {saved_s:.0f} s in the steps that are left, and take {decision.cost_s:.0f} s"
        return ""

    def _judge(self, trial: Decision, measured: Measurement) -> list[Decision]:
        """A full window has passed since the change: what did it bring?"""
        self._trial = None
        gain = measured.throughput / max(trial.measured.throughput, 1e-12) - 1
        outcome = attrs.evolve(trial, kind="outcome", step=self._step, measured=measured, achieved_gain=gain)
        noise = 2 * math.hypot(self._error, self._error_before)
        if gain >= -max(self.worse, noise):
            return [outcome]
        self._left.append((trial.new, dict(trial.corrections)))
        self._adopt(trial.old)
        reason = f"throughput changed by {gain:.1%}; {trial.predicted_gain:+.1%} was predicted"
        back = attrs.evolve(outcome, kind="revert", old=trial.new, new=trial.old, reason=reason)
        return [outcome, back]

    def _adopt(self, allocation: Allocation) -> None:
        self.allocation = allocation
        self._recent.clear()
        self._gaps, self._settling, self._kept = 0, self.settle, None
        self._quiet_until = self._step + self.cooldown

    def _corrections(self, measured: Measurement) -> dict[str, float]:
        """What was measured under the present allocation, as scales of the tables by stage."""
        expected = self._expected(measured.batch)
        seen = {
            SIMULATION: measured.simulation_rate,
            GENERATION: measured.generation_rate,
            TRAINING: measured.training_rate,
        }
        # A stage without costs on the cores is expected to be infinitely fast, and learns nothing.
        known = {load: 0.0 < rate < math.inf and expected[load] < math.inf for load, rate in seen.items()}
        return {load: expected[load] / rate if known[load] else 1.0 for load, rate in seen.items()}

    def _correct(self, scales: Mapping[str, float]) -> None:
        said = self._said
        self.problem = attrs.evolve(
            said,
            simulation=said.simulation.corrected(scales[SIMULATION]),
            generation=said.generation.corrected(scales[GENERATION]),
            training=said.training.corrected(scales[TRAINING]),
        )

    def _with_full_batches(self, measured: Measurement) -> Measurement:
        """What generation could do, where calls were smaller than planned because cores were hungry."""
        if not measured.batch:
            return measured
        fuller = self._expected(0.0)[GENERATION] / self._expected(measured.batch)[GENERATION]
        return attrs.evolve(measured, generation_rate=measured.generation_rate * fuller)

    def _expected(self, batch: float) -> dict[str, float]:
        """Rates of the tables as they were, under the present allocation; generation calls are of `batch`, 0: full."""
        said, allocation = self._said, self.allocation
        cores = len(usable_cores(said, allocation)[SIMULATION])
        simulating_s = simulation_work(said.simulation.on(CPU), min(cores, said.environments))
        served = (
            allocation if not batch else attrs.evolve(allocation, batch=min(allocation.batch, max(1, round(batch))))
        )
        return {
            SIMULATION: cores / simulating_s if simulating_s else math.inf,
            GENERATION: generation_rate(said, served)[0],
            TRAINING: training_rate(said, allocation),
        }

    def _decision(
        self, kind: str, measured: Measurement, answer: Answer, now: Prediction, corrections: dict[str, float]
    ) -> Decision:
        new = answer.allocation
        devices = (new.simulation, new.generation, new.training)
        present = (self.allocation.simulation, self.allocation.generation, self.allocation.training)
        return Decision(
            kind=kind,
            step=self._step,
            measured=measured,
            old=self.allocation,
            new=new,
            corrections=corrections,
            predicted=now.rate,
            predicted_new=answer.prediction.rate,
            bottleneck=answer.prediction.bottleneck,
            predicted_gain=answer.prediction.rate / max(now.rate, 1e-12) - 1,
            cost_s=0.0 if devices == present else self.change_s,
        )

    @property
    def _error(self) -> float:
        """Relative standard error of the mean duration of a step in the window."""
        steps_s = [1.0 / max(entry.throughput, 1e-12) for entry in self._recent]
        return statistics.stdev(steps_s) / statistics.mean(steps_s) / math.sqrt(len(steps_s))

    def _alike(self, one: Mapping[str, float], other: Mapping[str, float], tolerance: float) -> bool:
        return all(abs(one[load] / other[load] - 1) <= tolerance for load in one)
