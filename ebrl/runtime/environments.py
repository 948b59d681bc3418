"""Environments for a stage that plays episodes itself, such as evaluation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebrl.backends.protocols import Policy
from ebrl.graph.items import Batch, Episode, Observation
from ebrl.graph.model import Node
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.filming import Filming
from ebrl.runtime.reporting import tell
from ebrl.runtime.rollout import Rollout, RolloutSettings
from ebrl.runtime.rollout_settings import fault_settings
from ebrl.runtime.simulation import environment_order


class Environments:
    """A few environment processes of one simulator. They start with the first `run` and stay."""

    def __init__(
        self,
        settings: RolloutSettings,
        on_lost: Callable[[dict[str, Any]], None] = lambda lost: None,
        videos: Path | None = None,
    ) -> None:
        """`videos`: the folder for films of episodes; None where this process cannot reach the run's directory."""
        self._settings = settings
        self._on_lost = on_lost
        self._videos = videos
        self._rollout: Rollout | None = None
        self._finished: deque[Episode] = deque()
        self._actor = _LocalActor()

    @staticmethod
    def of(assignment: Assignment, node: Node, on_lost: Callable[[dict[str, Any]], None]) -> Environments:
        return Environments(
            RolloutSettings(
                order=environment_order(node, assignment),
                num_envs=int(node.options["num_envs"]),
                batch_size=int(node.options["num_envs"]),
                num_steps=None,
                chunk=assignment.chunk,
                cores=assignment.stage.quota.cores,
                bind=assignment.stage.quota.bound,
                seed=assignment.seed,
                purpose=node.name,
                in_order=True,
                **fault_settings(node.options, ResourcePool.discover().memory_mib),
            ),
            on_lost,
            assignment.videos,
        )

    def __len__(self) -> int:
        return self._settings.num_envs

    def run(
        self, policy: Policy, episodes: int, *, deterministic: bool = True, record: int = 0, title: str = ""
    ) -> Iterator[Episode]:
        """Play `episodes` whole episodes with `policy` and yield each as it ends.

        Every call plays the same episodes: episode i belongs to environment i modulo their number, and
        its start depends on the run's seed, the environment and how often it played before in this call.

        record: make videos of the first so many, named by `title`; see `Filming`. Raises UsageError where that
            needs a package that is missing.
        """
        rollout = self._rollout
        if rollout is None:
            rollout = self._rollout = Rollout(
                self._settings,
                make_actor=lambda rollout: self._actor,
                on_batch=lambda batch, trajectories: None,
                on_lost=self._on_lost,
                on_episode=self._finished.append,
            )
        self._actor.play(rollout, policy, deterministic)
        rollout.camera = filming = self._filming(rollout, min(record, episodes), title)
        rollout.restart()
        self._finished.clear()
        rollout.admit(0, episodes, 0)
        try:
            for _ in range(episodes):
                while not self._finished:
                    rollout.poll(0.5)
                episode = self._finished.popleft()
                if filming is not None:
                    filming.over(episode)
                yield episode
        finally:
            if filming is not None:
                filming.close()

    def _filming(self, rollout: Rollout, count: int, title: str) -> Filming | None:
        if not count:
            return None
        if self._videos is None:
            tell("warning", message="no videos: they are kept only where a stage runs beside the run's directory")
            return None
        return Filming(
            folder=self._videos,
            title=title,
            count=count,
            environments=len(self),
            hz=lambda: None if rollout.spec is None else rollout.spec.control_hz,
            say=lambda message: tell("warning", message=message),
            shown=lambda path: tell("video", path=str(path)),
        )

    def close(self) -> None:
        if self._rollout is not None:
            self._rollout.close()
            self._rollout = None


class _LocalActor:
    """Acts at once, in the process that runs the rollout."""

    def play(self, rollout: Rollout, policy: Policy, deterministic: bool) -> None:
        self._rollout, self._policy, self._deterministic = rollout, policy, deterministic

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        slots = self._rollout.slots
        assert slots is not None
        if not rows:
            return
        index = np.array(rows, np.intp)
        observations = Batch.stacked(Observation, seeds=slots["seed"][index], **slots.columns(index))
        chunks = self._policy.act(observations, deterministic=self._deterministic)
        slots["actions"][index] = chunks.column("actions")
        self._rollout.actions_arrived(rows)
