"""Fixed dispatcher: every environment keeps one core for ever. What greedy core rebinding is compared with."""

from __future__ import annotations

import attrs

from ebrl.schedule.dispatcher import StepDispatcher, Urgency


@attrs.define(kw_only=True)
class FixedDispatcher:
    """`StepDispatcher` without rebinding: environment e runs on core e modulo their number, and on no other.

    Those of one core take turns on it as they would there; a core whose environments have no work stays idle.
    """

    cores: tuple[int, ...]
    latency_s: dict[tuple[int, str], float] = attrs.field(factory=dict, init=False)
    """H[e]: expected seconds per environment and kind of work."""
    _queues: dict[int, StepDispatcher] = attrs.field(factory=dict, init=False)  # also of cores that were taken away
    _place: dict[int, StepDispatcher] = attrs.field(factory=dict, init=False)  # of whoever is ready or runs
    _ready: dict[int, tuple[str, Urgency]] = attrs.field(factory=dict, init=False)  # in order of arrival

    def __attrs_post_init__(self) -> None:
        self.move(self.cores)

    def ready(self, environment: int, work: str = "step", urgency: Urgency = (0.0, 0.0)) -> None:
        """`environment` could use its core now, for a ``step`` or more or one ``reset``; see `StepDispatcher`."""
        if environment in self._place:
            raise ValueError(f"environment {environment} already has work in flight")
        queue = self._queues[self.cores[environment % len(self.cores)]]
        queue.ready(environment, work, urgency)
        self._place[environment] = queue
        self._ready[environment] = (work, urgency)

    def finished(self, environment: int, elapsed_s: float, steps: int = 1) -> None:
        """The work that `dispatch` granted is done, of `steps` steps or one reset; its core is free."""
        self._place[environment].finished(environment, elapsed_s, steps)
        del self._place[environment]

    def remove(self, environment: int) -> None:
        """`environment` is gone, whatever it was doing."""
        self._ready.pop(environment, None)
        if (queue := self._place.pop(environment, None)) is not None:
            queue.remove(environment)

    def move(self, cores: tuple[int, ...]) -> None:
        """From now on grant these cores only; what runs elsewhere ends there, also on a core that others own now."""
        if not cores or len(set(cores)) < len(cores):
            raise ValueError("a dispatcher needs at least one core, and each once")
        self.cores = cores
        for core in cores:
            if core not in self._queues:
                self._queues[core] = StepDispatcher(cores=(core,))
                self._queues[core].latency_s = self.latency_s
        for environment, (work, urgency) in list(self._ready.items()):
            self.remove(environment)
            self.ready(environment, work, urgency)

    def dispatch(self) -> list[tuple[int, int]]:
        """(environment, core) pairs to start now."""
        grants = [grant for core in self.cores for grant in self._queues[core].dispatch()]
        for environment, _ in grants:
            del self._ready[environment]
        return grants

    @property
    def waiting(self) -> int:
        """Environments that are ready and whose core is not free."""
        return len(self._ready)

    @property
    def running(self) -> int:
        return len(self._place) - len(self._ready)

    @property
    def hungry(self) -> bool:
        """Whether a core has, or will have, nothing to do before more environments are ready."""
        return any(self._queues[core].hungry for core in self.cores)
