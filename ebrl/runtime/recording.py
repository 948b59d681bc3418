"""Recording: the windows of the admitted trajectory batches, and what the environments record in them."""

from __future__ import annotations

from collections.abc import Callable

from ebrl.graph.items import Trajectory
from ebrl.runtime.environment_state import EnvironmentState
from ebrl.schedule.windows import Windows


class Recording:
    """Gives windows to environments and delivers each batch when its last window is done.

    num_steps: chunk-steps of a window; None: a window is one episode, and only counted.
    """

    def __init__(
        self, windows: Windows, num_steps: int | None, on_batch: Callable[[int, list[Trajectory]], None]
    ) -> None:
        self._windows = windows
        self._num_steps = num_steps
        self._on_batch = on_batch
        self._recorded: dict[int, list[tuple[int, Trajectory]]] = {}

    def admit(self, batch: int, count: int, min_version: int) -> None:
        if not count:
            self._on_batch(batch, [])
            return
        self._recorded[batch] = []
        self._windows.admit(batch, count, min_version)

    @property
    def open(self) -> bool:
        """Whether there are windows that nobody has taken yet."""
        return self._windows.admitted > 0

    def begin(self, index: int, environment: EnvironmentState) -> bool:
        """Record from the observation on that the environment shows; False while no window is for it."""
        if environment.window is None:
            if (window := self._windows.take(index)) is None:
                return False
            environment.window = window
            environment.left = self._num_steps or 0
        if environment.recorder is not None and not environment.recorder.recording:
            environment.recorder.begin(episode=environment.episode, start=environment.chunks, capacity=environment.left)
        return True

    def full(self, environment: EnvironmentState) -> bool:
        return environment.left == 0 and self._num_steps is not None

    def episode_done(self, environment: EnvironmentState, *, terminated: bool, truncated: bool) -> None:
        """A trajectory never crosses the end of an episode."""
        if environment.window is None:
            return
        self._close(environment, terminated, truncated and not terminated, environment.success)
        if environment.left == 0:
            self.window_done(environment)

    def window_done(self, environment: EnvironmentState) -> None:
        self._close(environment)
        window, environment.window = environment.window, None
        assert window is not None
        if self._windows.done(window):
            recorded = sorted(self._recorded.pop(window.batch), key=lambda entry: entry[0])
            self._on_batch(window.batch, [trajectory for _, trajectory in recorded])

    def lost(self, environment: EnvironmentState) -> None:
        """Its window ends early; if nothing was recorded in it, somebody else may have it."""
        if (window := environment.window) is None:
            return
        self._close(environment, truncated=True)
        if environment.left == self._num_steps:
            environment.window = None
            self._windows.give_back(window)
        else:
            self.window_done(environment)

    def given_up(self, index: int) -> None:
        """The environment will not come back."""
        self._windows.remove(index)

    def clear(self) -> None:
        self._windows.clear()
        self._recorded.clear()

    def _close(
        self,
        environment: EnvironmentState,
        terminated: bool = False,
        truncated: bool = False,
        success: bool | None = None,
    ) -> None:
        recorder, window = environment.recorder, environment.window
        if recorder is None or window is None or not recorder.recording:
            return
        trajectory = recorder.close(terminated=terminated, truncated=truncated, success=success)
        if len(trajectory):
            self._recorded[window.batch].append((window.index, trajectory))
