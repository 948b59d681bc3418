"""What a rollout is told once, when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ebrl.graph.items import Array
from ebrl.runtime.order import EnvironmentOrder
from ebrl.schedule.recycling import fair_share_mib


@attrs.define(frozen=True, kw_only=True)
class Deadlines:
    """Seconds after which an environment counts as hung, by what it is doing."""

    start_s: float = 300.0
    reset_s: float = 120.0
    step_s: float = 60.0

    def of(self, work: str) -> float | None:
        """The limit for `work`; None where nothing is asked of the environment."""
        return {"start": self.start_s, "reset": self.reset_s, "step": self.step_s}.get(work)


def fault_settings(options: Mapping[str, int | None], memory_mib: int | None) -> dict[str, Any]:
    """What the engine options of a stage say about faults of its environments, as arguments of `RolloutSettings`.

    memory_mib: what the machine (or the cgroup) has; without an option an environment may use its share.
    """
    given = {name: value for name, value in options.items() if value is not None}
    works = [work for work in ("start", "reset", "step") if f"{work}_deadline_s" in given]
    settings: dict[str, Any] = {"deadlines": Deadlines(**{f"{work}_s": given[f"{work}_deadline_s"] for work in works})}
    if "most_restarts" in given:
        settings["most_restarts"] = given["most_restarts"]
    share_mib = fair_share_mib(memory_mib, given["num_envs"])
    settings["memory_limit_mib"] = float(given.get("memory_limit_mib", share_mib))
    return settings


@attrs.define(frozen=True, kw_only=True)
class RolloutSettings:
    order: EnvironmentOrder
    num_envs: int
    num_steps: int | None
    """Chunk-steps of one window; None: a window is one whole episode, and nothing is recorded."""
    chunk: int
    cores: tuple[int, ...]
    """One environment runs on each at a time."""
    bind: bool = False
    """Move an environment's threads to the core that it was granted."""
    quantum: int | None = None
    """Steps of one grant; None: by their latency (see `ebrl.schedule.quantum`)."""
    seed: int = 0
    purpose: str = "simulate"
    """Separates the random streams of several rollouts of one run."""
    numbers: Sequence[int] = attrs.field()
    """The environments' numbers, which they are seeded and reported by; replicas that share a stage's
    environments have different ones. Default: from 0."""
    batch_size: int = 1
    """Observations that the actor takes at once: requests are sent when so many have come together, or when
    no environment is left to run."""
    step_barrier: bool = False
    groups: int = 1
    """Of environments, that step barriers keep apart."""
    rebinding: bool = True
    """A free core takes whichever environment is most urgent; else every environment keeps its core for ever."""
    in_order: bool = False
    """Results do not depend on timing (see `Windows`)."""
    deadlines: Deadlines = Deadlines()
    most_restarts: int = 3
    """Restarts of one environment without a finished episode between them, before it is given up."""
    memory_limit_mib: float = float("inf")
    """Resident size of an environment process above which it is replaced between two episodes (see `Recycling`)."""
    resume: Mapping[int, tuple[int, Sequence[Array]]] = attrs.field(factory=dict)
    """Per number: the episode to begin with, and the action chunks to replay in it."""

    @numbers.default
    def _from_zero(self) -> Sequence[int]:
        return range(self.num_envs)
