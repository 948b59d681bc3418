"""Speed-ups: `ebrl` against what the field runs, and without each of its mechanisms, on every configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from configurations import CONFIGURATIONS
from published import RANGE, SPEEDUPS
from rehearsed import Extent, Rehearsed, rehearsed

from ebrl.graph.schedules import MECHANISMS

BASELINES = ("async", "hybrid", "disaggregated", "colocated")
"""Schedules of the field; `sync` is this engine with barriers."""


@attrs.define(frozen=True, kw_only=True)
class Comparison:
    """One configuration under one algorithm."""

    name: str
    algorithm: str
    ebrl: Rehearsed
    others: Mapping[str, Rehearsed]
    """By schedule."""
    without: Mapping[str, Rehearsed]
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


def comparisons(extent: Extent, names: tuple[str, ...] = tuple(CONFIGURATIONS)) -> Iterator[Comparison]:
    """Those of `names`, under both algorithms."""
    for name in names:
        for algorithm in CONFIGURATIONS[name].set_ups:
            yield comparison(name, algorithm, extent)


def comparison(name: str, algorithm: str, extent: Extent) -> Comparison:
    ebrl = rehearsed(name, algorithm, extent)
    assert ebrl is not None
    others = {schedule: rehearsed(name, algorithm, extent, schedule) for schedule in (*BASELINES, "sync")}
    without = {mechanism: rehearsed(name, algorithm, extent, without=(mechanism,)) for mechanism in MECHANISMS}
    return Comparison(
        name=name,
        algorithm=algorithm,
        ebrl=ebrl,
        others={key: found for key, found in others.items() if found is not None},
        without={key: found for key, found in without.items() if found is not None},
    )


def sentence(found: Comparison) -> str:
    """Which mechanism brings what, and what is missing to the roofline."""
    against = ", ".join(f"{found.speedup(name):.2f}x {name}" for name in found.others)
    parts = sorted(found.without, key=found.remains)
    brings = ", ".join(
        f"{mechanism} {1 / found.remains(mechanism) - 1:+.0%}{_because(found, mechanism)}" for mechanism in parts
    )
    missing = f"{found.ebrl.share:.2f} of its roofline ({found.ebrl.binding})"
    idle = _idle(found.ebrl, _resource(found.ebrl))
    return (
        f"{found.name} {found.algorithm.upper()}: ebrl reaches {found.ebrl.rate:.3g} chunk-steps/s, {missing}"
        f"{f', where {idle}' if idle else ''}; {against}. Its mechanisms bring {brings}."
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
    if most < 0.01:
        return ""
    return f" (without it {resource} wait{'' if resource == 'cores' else 's'} {most:.0%} more of the time: {cause})"


def _resource(found: Rehearsed) -> str:
    """The one in `Usage` that the binding limit stands for."""
    if found.binding.startswith("cores") or found.binding == "environments":
        return "cores"
    return max((name for name in found.usage if name != "cores"), key=lambda name: found.usage[name].get("busy", 0.0))


def _idle(found: Rehearsed, resource: str) -> str:
    causes = {cause: share for cause, share in found.usage[resource].items() if cause != "busy" and share >= 0.005}
    told = ", ".join(f"{cause} {share:.0%}" for cause, share in sorted(causes.items(), key=lambda entry: -entry[1]))
    return f"{resource} idle by {told}" if told else ""
