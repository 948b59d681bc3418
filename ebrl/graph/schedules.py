"""Schedules: which stages wait for which, and how they have the devices. Each is a declaration; the engine is one.

The baselines are those of the field, as RLinf (arXiv 2509.15965) names its modes. They differ from it in one point:
environments take turns on the cores under the same dispatcher as everywhere here, which no baseline has of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from ebrl.errors import UsageError, did_you_mean

SHARED = "shared"
"""Several stages may have a device at a time, each a share of its SMs."""
EXCLUSIVE = "exclusive"
"""A device belongs to one stage."""
IN_TURN = "in turn"
"""Every stage has all devices while it works; weights and optimiser leave the device in between and come back."""
HALVES = "halves"
"""Simulation and generation have one half of the devices each while they roll out; training then has them all, in
turn."""

MECHANISMS = ("allocation", "pipeline", "overlap", "rebinding")
"""What `Schedule.without` can leave out."""


@attrs.define(frozen=True, kw_only=True)
class Schedule:
    """What is not said here, the planner decides: batch sizes, shares, threads."""

    summary: str
    overlap: bool = False
    """The rollout goes on while the policy trains, as far as `max_staleness` allows."""
    step_barrier: bool = True
    """No environment of a group gets a new chunk before all of the group have finished theirs."""
    groups: int = 1
    """Of environments, that step barriers keep apart: one steps while the other is served."""
    devices: str = EXCLUSIVE
    rebinding: bool = True
    """A free core takes whichever environment is most urgent; else every environment keeps its core for ever."""

    def without(self, *mechanisms: str) -> Schedule:
        """This schedule with some of `MECHANISMS` left out; KeyError for others.

        ``allocation``: devices are not divided. ``pipeline``: simulation and generation wait for one another.
        ``overlap``: so do rollout and training. ``rebinding``: environments keep their cores.
        """
        changes: dict[str, dict[str, Any]] = {
            "allocation": {"devices": EXCLUSIVE},
            "pipeline": {"step_barrier": True, "groups": 1},
            "overlap": {"overlap": False},
            "rebinding": {"rebinding": False},
        }
        return attrs.evolve(self, **{name: value for each in mechanisms for name, value in changes[each].items()})


SCHEDULES = {
    "ebrl": Schedule(
        summary="no barriers; stages share devices by SMs, environments the cores",
        overlap=True,
        step_barrier=False,
        devices=SHARED,
    ),
    "async": Schedule(
        summary="rollout and training overlap, on devices of their own; environments wait for one another", overlap=True
    ),
    "hybrid": Schedule(
        summary="two groups of environments take turns on fixed devices; training then has all devices",
        groups=2,
        devices=HALVES,
    ),
    "disaggregated": Schedule(summary="rollout and training take turns, each on devices of its own"),
    "colocated": Schedule(summary="every stage has all devices in turn, and loads what it needs", devices=IN_TURN),
    "sync": Schedule(
        summary="rollout and training take turns and environments wait for one another; devices are shared",
        devices=SHARED,
    ),
}


def declared(name: str, without: Iterable[str] = ()) -> Schedule:
    """The schedule of that name, with some of `MECHANISMS` left out; UsageError where there is none, or no such
    mechanism."""
    if name not in SCHEDULES:
        raise UsageError(f"there is no schedule {name!r}", hint=did_you_mean(str(name), SCHEDULES))
    return SCHEDULES[name].without(*mechanisms(without))


def mechanisms(names: Iterable[str]) -> tuple[str, ...]:
    """`names` in the order of `MECHANISMS`, each once; UsageError where one is none of them."""
    names = list(names)
    for name in names:
        if name not in MECHANISMS:
            raise UsageError(f"there is no mechanism {name!r} to go without", hint=did_you_mean(str(name), MECHANISMS))
    return tuple(name for name in MECHANISMS if name in names)
