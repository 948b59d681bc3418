"""What the stages really cost in a rehearsal, and by how much it varies from call to call."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cache
from random import Random

import attrs

from ebrl.planner.costs import CPU, CostTable, StageCosts
from ebrl.planner.predict import host_work, simulation_work
from ebrl.planner.problem import GENERATION, SIMULATION, TRAINING, Problem
from ebrl.planner.profile import Profile


@attrs.define(frozen=True, kw_only=True)
class TrueCosts:
    """Mean costs as tables; every call is a draw from a lognormal distribution around them.

    The sigmas are those of the logarithm, so about the relative spread of one call: 0 is none.
    """

    simulation: StageCosts
    """A chunk-step on ``cpu``, without any reset."""
    generation: StageCosts
    training: StageCosts
    episode: float = math.inf
    """Mean chunk-steps of an episode; infinite: it never ends."""
    episode_spread: float = 0.0
    """Lengths are drawn evenly from episode * (1 - spread) to episode * (1 + spread), 0 to 1."""
    reset_s: float = 0.0
    """CPU time of a reset, which follows each episode."""
    simulation_sigma: float = 0.0
    generation_sigma: float = 0.0
    training_sigma: float = 0.0
    """One draw for all devices: what makes an iteration longer, longer trajectories say, concerns them all."""
    stragglers: Collection[int] = ()
    """Environments whose chunks and resets cost `straggler_factor` times as much."""
    straggler_factor: float = 5.0
    swap_s: float = 0.0
    """For how long devices do nothing when they go from one stage to another: one offloads, the other loads."""
    publish_s: float = 0.0
    """From the end of a training iteration until generation has its weights."""
    gather_s: float = 0.0
    """From the end of a rollout until its trajectories can train."""
    gap_s: float = 0.0
    """For how long a core waits between two chunks, until the next environment has heard that it may begin."""

    @staticmethod
    def of(problem: Problem, **settings: object) -> TrueCosts:
        """The costs that `problem` says, beside `settings`."""
        costs = {"simulation": problem.simulation, "generation": problem.generation, "training": problem.training}
        return TrueCosts(**{**costs, **settings})  # type: ignore[arg-type]

    @staticmethod
    def of_profile(profile: Profile) -> TrueCosts:
        """What `profile` says, where calls vary as much as its points: they are medians, below the means, unless they
        were corrected by what all stages together needed."""
        sigmas = {stage: profile.sigma(stage) for stage in (SIMULATION, GENERATION, TRAINING)}
        means = {
            stage: profile.costs(stage).corrected(1.0 if stage in profile.together else math.exp(sigma**2 / 2))
            for stage, sigma in sigmas.items()
        }
        return TrueCosts(
            simulation=means[SIMULATION],
            generation=means[GENERATION],
            training=means[TRAINING],
            simulation_sigma=sigmas[SIMULATION],
            generation_sigma=sigmas[GENERATION],
            training_sigma=sigmas[TRAINING],
            episode=math.inf if profile.episode is None else profile.episode,
            episode_spread=profile.episode_spread,
            reset_s=profile.reset_s,
            swap_s=profile.swap_s,
            publish_s=profile.publish_s,
            gather_s=profile.gather_s,
            gap_s=profile.gap_s,
        )

    def told(self, problem: Problem) -> Problem:
        """`problem` with these costs: resets are part of what a chunk-step costs, on average over the environments."""
        return attrs.evolve(
            problem,
            simulation=self._with_resets(problem.environments),
            generation=self.generation,
            training=self.training,
            reset_s=self.reset_s * min(1.0, problem.iteration / self.episode),
        )

    def _with_resets(self, environments: int) -> StageCosts:
        table = self.simulation.on(CPU)
        if table is None:
            return self.simulation
        slow = len([number for number in self.stragglers if number < environments])
        factor = 1.0 + slow / environments * (self.straggler_factor - 1.0)
        whole = table.with_more(self.reset_s / self.episode).corrected(factor)
        return StageCosts(tables={**self.simulation.tables, CPU: whole})


class Draws:
    """Durations under `costs`, which may be exchanged at any time. All depend on the seed and on the order of calls."""

    def __init__(self, seed: int, costs: TrueCosts) -> None:
        self._random = Random(seed)
        self._known: dict[tuple[object, ...], tuple[float, float]] = {}
        self.costs = costs

    def become(self, costs: TrueCosts) -> None:
        self.costs = costs
        self._known.clear()

    def chunk_s(self, environment: int, cores: int, part: float = 1.0) -> float:
        """CPU seconds of a chunk-step, or of `part` of it, while `cores` cores simulate. Parts vary independently."""
        key = ("chunk", cores)
        if key not in self._known:
            self._known[key] = simulation_work(self.costs.simulation.on(CPU), cores), 0.0
        return self._known[key][0] * part * self._factor(environment, part)

    def device_part_s(self, model: str, percent: float) -> float:
        """Seconds of a chunk-step on `percent` of a device."""
        return self._call(self.costs.simulation.on(model), model, percent, 1, self.costs.simulation_sigma)[0]

    def reset_s(self, environment: int) -> float:
        return self.costs.reset_s * self._factor(environment)

    def episode(self) -> float:
        """Chunk-steps until the next reset."""
        if math.isinf(self.costs.episode):
            return math.inf
        spread = self.costs.episode_spread
        return max(1, round(self.costs.episode * self._random.uniform(1.0 - spread, 1.0 + spread)))

    def episode_left(self) -> float:
        """The same for the first episode: somewhere within it, as episodes are found when a run has gone on; where
        all are equally long they begin, and mostly stay, together."""
        whole = self.episode()
        somewhere = self.costs.episode_spread and math.isfinite(whole)
        return self._random.randint(1, int(whole)) if somewhere else whole

    def generation_s(self, model: str, quota: float, batch: int) -> tuple[float, float]:
        """(seconds, CPU seconds) of a call."""
        return self._call(self.costs.generation.on(model), model, quota, batch, self.costs.generation_sigma)

    def training_s(self, parts: Collection[tuple[str, float]], batch: int) -> list[tuple[float, float]]:
        """(seconds, CPU seconds) of one iteration, for the part of each (device model, quota)."""
        factor = self._around(self.costs.training_sigma)
        found = [self._call(self.costs.training.on(model), model, quota, batch, 0.0) for model, quota in parts]
        return [(seconds * factor, core_s * factor) for seconds, core_s in found]

    def _call(self, table: CostTable | None, model: str, quota: float, batch: int, sigma: float) -> tuple[float, float]:
        if table is None:
            raise ValueError(f"nothing says what a stage costs on {model}")
        key = (id(table), quota, batch)
        if key not in self._known:
            inside = quota if model == CPU else 100
            self._known[key] = table.seconds(quota, batch), host_work(table, inside, batch) * batch
        seconds, core_s = self._known[key]
        factor = self._around(sigma)
        return seconds * factor, core_s * factor

    def _factor(self, environment: int, part: float = 1.0) -> float:
        slow = self.costs.straggler_factor if environment in self.costs.stragglers else 1.0
        sigma = self.costs.simulation_sigma
        return slow * self._around(sigma if part == 1.0 else _sigma_of_part(sigma, part))

    def _around(self, sigma: float) -> float:
        """Lognormal with mean 1."""
        return math.exp(self._random.gauss(-sigma * sigma / 2, sigma)) if sigma else 1.0


@cache
def _sigma_of_part(sigma: float, part: float) -> float:
    """Of the logarithm of independent parts whose sum has `sigma`: relative variances are inverse to the parts."""
    return math.sqrt(math.log1p(math.expm1(sigma**2) / part))
