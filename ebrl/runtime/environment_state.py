"""What a rollout knows of one environment: its process, and how far it is in episode, window and chunk."""

from __future__ import annotations

import attrs

from ebrl.graph.items import Array, Episode
from ebrl.runtime.environment import EnvironmentProcess
from ebrl.runtime.slots import Slots
from ebrl.runtime.trajectories import TrajectoryRecorder
from ebrl.schedule.dispatcher import Urgency
from ebrl.schedule.urgency import urgency
from ebrl.schedule.windows import Window


@attrs.define
class EnvironmentState:
    """Life of an environment: start, reset, idle, asking, step, asking ... reset ... gone."""

    process: EnvironmentProcess
    number: int
    episode: int = 0
    replay: list[Array] = attrs.field(factory=list)
    """Action chunks that bring it to where a checkpoint left it."""
    restarts: int = 0
    """Processes that were lost since its last finished episode."""
    work: str = "start"
    began_s: float = 0.0
    """When the present start, reset or step began (monotonic clock); 0 while none is running."""
    core: int | None = None
    recorder: TrajectoryRecorder | None = None

    window: Window | None = None
    left: int = 0
    """Chunk-steps that the window still has."""

    chunks: int = 0
    """Chunks of this episode so far."""
    steps: int = 0
    """Environment steps of its finished chunks."""
    reward: float = 0.0
    success: bool | None = None
    actions: list[Array] = attrs.field(factory=list)
    """Chunks of this episode, where a resume may replay them."""

    executed: int = 0
    """Actions of the present chunk, as far as its process has answered for them."""
    position: Array | None = None
    """[1] int32 in the slots, where the process says which it executes."""
    seen: int = 0
    """`position` when it was looked at last."""
    asked: bool = False
    """Its present observation was handed to the actor, or is about to be."""
    restart: bool = False
    """Begin anew when the present reset or step is done."""

    @property
    def urgency(self) -> Urgency:
        """Older batches first; within a batch whoever has the most left, so that all end together; a chunk that was
        begun before others, while the caches know its environment."""
        return urgency(self.window, self.left, begun=self.executed > 0)

    def begin_episode(self) -> None:
        self.work, self.began_s = "reset", 0.0
        self.chunks = self.steps = self.executed = 0
        self.reward, self.success = 0.0, None
        self.actions, self.asked, self.restart = [], False, False

    def begin_chunk(self) -> None:
        self.work, self.executed = "step", 0
        if self.position is not None:
            self.position[0] = 0

    def progressed(self, now: float) -> None:
        """Deadlines are for one step, however many were granted: each that begins sets the clock anew."""
        if self.work == "step" and self.began_s and self.position is not None and self.position[0] != self.seen:
            self.seen, self.began_s = int(self.position[0]), now

    def catch_up(self) -> None:
        """Count the actions that a process executed before it was lost, however that happened."""
        if self.work == "step" and self.position is not None:
            self.executed = max(self.executed, int(self.position[0]))

    def chunk_done(self, slots: Slots, row: int, *, keep_actions: bool) -> None:
        """Count the chunk in slot `row`, and record it."""
        self.chunks += 1
        self.steps += self.executed
        self.reward += sum(slots["rewards"][row].tolist())  # for a few numbers quicker than numpy
        if keep_actions:
            self.actions.append(slots["actions"][row].copy())
        if self.recorder is not None and self.recorder.recording:
            self.recorder.chunk(self.executed)
            self.left -= 1
        self.executed = 0

    def result(self, *, lost: bool = False) -> Episode:
        """The episode as it ends now."""
        success = None if lost else self.success
        return Episode(self.number, self.episode, self.steps + self.executed, self.reward, success, lost=lost)
