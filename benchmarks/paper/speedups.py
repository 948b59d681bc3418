"""Speed-ups: `ebrl` against what the field runs, and without each of its mechanisms, on every configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from configurations import CONFIGURATIONS
from experiments import Experiment
from published import RANGE, SPEEDUPS

from ebrl.graph.schedules import MECHANISMS
from ebrl.rehearse.comparison import Outcome

BASELINES = ("async", "hybrid", "disaggregated", "colocated")
"""Schedules of the field; `sync` is this engine with barriers."""
_TOLD = 0.005  # shares of time below this are not worth a word


@attrs.define(frozen=True, kw_only=True)
class Comparison:
    """One configuration under one algorithm."""

    name: str
    algorithm: str
    ebrl: Outcome
    others: Mapping[str, Outcome]
    """By schedule."""
    without: Mapping[str, Outcome]
    """By mechanism that is left out."""

    def speedup(self, schedule: str) -> float:
        return self.ebrl.rate / self.others[schedule].rate

    def remains(self, mechanism: str) -> float:
        """Share of the throughput that is left without it."""
        return self.without[mechanism].rate / self.ebrl.rate

    @property
    def strongest(self) -> str:
        """The fastest of `BASELINES`."""
        return max((name for name in BASELINES if name in self.others), key=lambda name: self.others[name].rate)

    @property
    def wanted(self) -> Mapping[str, float]:
        """Schedule -> the paper's speed-up over it; where only its range is known, the least over the strongest."""
        found = SPEEDUPS.get((self.name, self.algorithm))
        return found.values if found else {self.strongest: RANGE.values["least"]}


def experiments(name: str, algorithm: str) -> Iterator[Experiment]:
    """All that a comparison needs."""
    yield Experiment(name=name, algorithm=algorithm)
    yield from (Experiment(name=name, algorithm=algorithm, schedule=schedule) for schedule in (*BASELINES, "sync"))
    yield from (Experiment(name=name, algorithm=algorithm, without=(mechanism,)) for mechanism in MECHANISMS)


def comparison(name: str, algorithm: str, found: Mapping[Experiment, Outcome]) -> Comparison:
    wanted = [one for one in experiments(name, algorithm) if one in found]
    return Comparison(
        name=name,
        algorithm=algorithm,
        ebrl=found[Experiment(name=name, algorithm=algorithm)],
        others={one.schedule: found[one] for one in wanted if one.schedule != "ebrl"},
        without={one.without[0]: found[one] for one in wanted if one.without},
    )


def every(names: tuple[str, ...] = tuple(CONFIGURATIONS)) -> list[tuple[str, str]]:
    """(configuration, algorithm)."""
    return [(name, algorithm) for name in names for algorithm in CONFIGURATIONS[name].set_ups]


def sentence(found: Comparison) -> str:
    """Which mechanism brings what, and what is missing to the roofline."""
    against = ", ".join(f"{found.speedup(name):.2f}x {name}" for name in found.others)
    brings = ", ".join(
        f"{mechanism} {1 / found.remains(mechanism) - 1:+.0%}{_because(found, mechanism)}"
        for mechanism in sorted(found.without, key=found.remains)
    )
    limit = f"{found.ebrl.of_roofline:.2f} of its roofline, which the {found.ebrl.roofline.binding} hold down"
    return (
        f"{found.name}, {found.algorithm.upper()}: ebrl reaches {found.ebrl.rate:.3g} chunk-steps/s, {limit} "
        f"({_idle(found.ebrl)}): {against}. Its mechanisms bring {brings}."
    )


def _because(found: Comparison, mechanism: str) -> str:
    """What waits more without it: the resource and cause whose share of idle time grows most."""
    grown = {
        (resource, cause): share - found.ebrl.usage.get(resource, {}).get(cause, 0.0)
        for resource, row in found.without[mechanism].usage.items()
        for cause, share in row.items()
        if cause != "busy"
    }
    (resource, cause), most = max(grown.items(), key=lambda entry: entry[1])
    return f" (without it {most:.0%} more {cause} of {resource})" if most >= 2 * _TOLD else ""


def _idle(found: Outcome) -> str:
    """Why the resource that works most is idle when it is."""
    resource = max(found.usage, key=lambda name: found.usage[name].get("busy", 0.0))
    causes = sorted(found.usage[resource].items(), key=lambda entry: -entry[1])
    told = [f"{cause} {share:.0%}" for cause, share in causes if cause == "busy" or share >= _TOLD]
    return f"{resource}: {', '.join(told)}"
