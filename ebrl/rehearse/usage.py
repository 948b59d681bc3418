"""Usage: how busy cores and devices are, and why they are idle when they are.

Between two events nothing changes, so every interval is counted whole, and shares of time sum to 1. Idle time of the
cores is divided among the environments that have no core, in equal parts, by what each of them waits for:

- ``starvation``: actions; generation is at work on them, or on others before. Likewise the device part of a chunk.
- ``barrier``: the others of its group, or, where rollout and training take turns, the end of the training.
- ``admission``: newer weights, since the bound of staleness lets it begin nothing with the present ones.
- ``transfer``: weights on their way, or devices that change hands.
- ``core``: its own core, which others use (only without rebinding), or any in the gap between two chunks.
- ``environments``: nobody waits at all; there are more cores than environments.

A replica of generation that is idle, and training while it is idle, wait for what the first of these says that holds:

- ``transfer``: weights on their way, or devices that change hands.
- ``barrier``: all that generation was asked for waits for weights of the next turn, or requests stand at a step
  barrier; training, where it takes turns with the rollout.
- ``admission``: all that generation was asked for waits for newer weights, or no environment may begin anything.
- ``starvation``: else; observations or trajectories are not ready yet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

CORES, GENERATION, TRAINING, SIMULATION = "cores", "generation", "training", "simulation on devices"
BUSY = "busy"
CAUSES = ("starvation", "barrier", "admission", "transfer", "core", "environments")
_MOST_STATES = 4096  # that are kept until somebody counts them


class State(NamedTuple):
    """What holds during one interval; the numbers of environments are those without a core."""

    cores: int
    cores_busy: int
    at_barriers: int
    asked: int
    """Environments that wait for actions and are not held."""
    held: int
    """Environments whose requests wait for newer weights."""
    idle: int
    """Environments without a window."""
    ready: int
    replicas: int
    replicas_busy: int
    training_busy: bool
    shares: int
    """Parts of devices that simulators have."""
    shares_busy: int
    on_devices: int
    """Environments with a device part to do."""
    turns: bool
    """Rollout and training take turns."""
    transfer: bool


class Watched(Protocol):
    def state(self) -> State: ...


class Usage:
    """Seconds by resource, and by ``busy`` or the cause of being idle."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        names = (CORES, GENERATION, TRAINING, SIMULATION)
        self._seconds: dict[str, defaultdict[str, float]] = {name: defaultdict(float) for name in names}
        self._passed: defaultdict[State, float] = defaultdict(float)  # what `_seconds` does not have yet

    def passed(self, seconds: float) -> None:
        """Nothing has changed for so long."""
        self._passed[self._watched.state()] += seconds
        if len(self._passed) > _MOST_STATES:
            self._count()

    def shares(self) -> dict[str, Mapping[str, float]]:
        """Resource -> ``busy`` or cause -> share of its time so far."""
        self._count()
        return {
            name: {cause: spent / total for cause, spent in row.items() if spent}
            for name, row in self._seconds.items()
            if (total := sum(row.values()))
        }

    def clear(self) -> None:
        """Begin anew."""
        self._passed.clear()
        for row in self._seconds.values():
            row.clear()

    def _count(self) -> None:
        for state, seconds in self._passed.items():
            self._cores(state, seconds)
            cause = idle_cause(state)
            self._part(GENERATION, state.replicas, state.replicas_busy, cause, seconds)
            waiting = "transfer" if state.transfer else "barrier" if state.turns else "starvation"
            self._part(TRAINING, 1, int(state.training_busy), waiting, seconds)
            if state.shares:
                self._part(SIMULATION, state.shares, state.shares_busy, cause, seconds)
        self._passed.clear()

    def _cores(self, state: State, seconds: float) -> None:
        row = self._seconds[CORES]
        row[BUSY] += state.cores_busy * seconds
        idle_s = (state.cores - state.cores_busy) * seconds
        if not idle_s:
            return
        turn = "transfer" if state.transfer else "barrier" if state.turns else "admission"
        waiting = Counter({"barrier": state.at_barriers, "starvation": state.asked + state.on_devices})
        waiting["core"] = state.ready
        waiting[turn] += state.held + state.idle
        total = sum(waiting.values())
        if not total:
            row["environments"] += idle_s
            return
        for cause, number in waiting.items():
            if number:
                row[cause] += idle_s * number / total

    def _part(self, name: str, parts: int, busy: int, cause: str, seconds: float) -> None:
        row = self._seconds[name]
        row[BUSY] += busy * seconds
        row[cause] += (parts - busy) * seconds


def idle_cause(state: State) -> str:
    """Why generation, and what simulators do on devices, is idle."""
    if state.transfer:
        return "transfer"
    held_back = bool(state.held or state.idle)
    if state.turns and held_back and not state.asked:
        return "barrier"
    if state.at_barriers:
        return "barrier"
    moving = state.cores_busy or state.ready or state.asked or state.on_devices
    return "admission" if held_back and not moving else "starvation"
