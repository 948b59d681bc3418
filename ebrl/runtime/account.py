"""The account of a run: what workers told becomes the stats of iterations. Pure: news in, numbers out."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from ebrl.graph.items import Episode
from ebrl.observe.metrics import EpisodeWindow
from ebrl.planner.feedback import Measurement

_KEPT = 32  # newest delays
News = Mapping[str, Any]


class Account:
    """Counts whole iterations: what was rolled out and not trained on yet does not appear.

    News are kept by replica, so that a batch that was lost with its worker, and told again by its
    successor, counts once.
    """

    def __init__(self) -> None:
        self.episodes = EpisodeWindow()
        self.env_steps = 0
        self.max_staleness_seen = 0
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        """CPU seconds by what they were spent on: simulation, generation, training, engine."""
        self._rollouts: defaultdict[int, dict[str, News]] = defaultdict(dict)
        self._trainings: dict[int, News] = {}
        self._generation: dict[str, News] = {}
        self.gathering_s: deque[float] = deque(maxlen=_KEPT)
        """From the end of a rollout until its training began, of those that waited for nothing else. This and the
        next are of one machine, whose clocks agree."""
        self.publishing_s: deque[float] = deque(maxlen=_KEPT)
        """From the end of a training until generation had its weights."""
        self.wall_s = 0.0
        """Of the last closed iteration."""
        self._trained_s = math.inf
        self._ended_s: dict[int, float] = {}  # of trainings, by the version that they made
        self.measured: Measurement | None = None
        """What the stages could do in the last closed iteration; None where one of them did nothing."""

    def rolled(self, news: News) -> None:
        """One replica completed its share of a batch."""
        self._rollouts[news["batch"]][news["replica"]] = news

    def generated(self, news: News) -> None:
        """A generation replica served until newer weights came."""
        self.cpu_s["generation"] += news["cpu_s"]
        self._generation[news["replica"]] = news
        if (ended_s := self._ended_s.pop(news["version"], None)) is not None:
            self.publishing_s.append(news["loaded_s"] - ended_s)

    def trained(self, news: News) -> None:
        self._trainings[news["iteration"]] = news

    def close(self, iteration: int, wall_s: float) -> dict[str, float]:
        """Stats of a complete iteration that took `wall_s` seconds."""
        rollouts = list(self._rollouts.pop(iteration, {}).values())
        training = self._trainings.pop(iteration)
        steps = sum(news["env_steps"] for news in rollouts)
        self.env_steps += steps
        self.max_staleness_seen = max(self.max_staleness_seen, training["staleness_max"])
        for news in rollouts:
            for fields in news["episodes"]:
                self.episodes.add(Episode(*fields))
            self.cpu_s["simulation"] += news["simulator_cpu_s"]
            self.cpu_s["engine"] += news["engine_cpu_s"]
        self.cpu_s["training"] += training["cpu_s"]
        self._travelled(iteration, rollouts, training)
        trainer = training["stage"]
        served = list(self._generation.values())
        self.measured, self.wall_s = _measured(rollouts, served, training, wall_s), wall_s
        return {
            **{f"{trainer}/{name}": value for name, value in training["metrics"].items()},
            **_means("idle/{stage}", "idle", rollouts),
            **_means("idle/{stage}", "idle", served),
            **_means("{stage}/batch_size", "batch_size", served),
            **_means("{stage}/wait_ms", "wait_ms", served),
            **_means("{stage}/compute_ms", "compute_ms", served),
            f"idle/{trainer}": max(0.0, 1.0 - training["train_s"] / max(wall_s, 1e-9)),
            "queue_depth": sum(news["queue_depth"] for news in rollouts),
            "staleness_mean": training["staleness_mean"],
            "staleness_max": training["staleness_max"],
            **self.episodes.stats,
            "env_steps": self.env_steps,
            "env_steps_per_s": steps / max(wall_s, 1e-9),
        }

    def _travelled(self, iteration: int, rollouts: list[News], training: News) -> None:
        ended_s = max((news["ended_s"] for news in rollouts), default=math.inf)
        if self._trained_s < ended_s <= training["began_s"]:
            self.gathering_s.append(training["began_s"] - ended_s)
        self._trained_s = self._ended_s[iteration + 1] = training["began_s"] + training["train_s"]
        self._ended_s.pop(iteration - _KEPT, None)

    def save(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "env_steps": self.env_steps,
            "max_staleness_seen": self.max_staleness_seen,
            "episodes": self.episodes.save(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.env_steps = saved["env_steps"]
        self.max_staleness_seen = saved["max_staleness_seen"]
        self.episodes.restore(saved["episodes"])


def _measured(rollouts: list[News], served: list[News], training: News, wall_s: float) -> Measurement | None:
    """Rates from CPU time: it is what a stage needs, however many others share its cores."""
    chunks = sum(news["chunks"] for news in rollouts)
    simulating_s = sum((news["simulator_cpu_s"] + news["engine_cpu_s"]) / news["cores"] for news in rollouts)
    generated = [news["requests"] / news["cpu_s"] for news in served if news["cpu_s"] > 0 and news["requests"]]
    training_s = training["cpu_s"] / training["threads"]
    if not (chunks and simulating_s > 0 and generated and training_s > 0):
        return None
    return Measurement(
        throughput=chunks / max(wall_s, 1e-9),
        simulation_rate=chunks * len(rollouts) / simulating_s,
        generation_rate=sum(generated),
        training_rate=chunks / training_s,
    )


def _means(name: str, field: str, told: Iterable[News]) -> dict[str, float]:
    """Mean of `field` over the replicas of each stage."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for news in told:
        values[name.format(stage=news["stage"])].append(news[field])
    return {key: sum(found) / len(found) for key, found in values.items()}
