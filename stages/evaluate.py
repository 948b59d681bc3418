"""Evaluation: the success of the current weights over whole episodes."""

from __future__ import annotations

import ebrl
from ebrl.backends.protocols import Policy
from ebrl.errors import UsageError
from ebrl.graph.items import Weights
from ebrl.graph.stage import stage
from ebrl.runtime.environments import Environments

FEWEST_EPISODES = 10
"""Before this many episodes an evaluation is not broken off, however hopeless: its figures are reported."""


@stage
def evaluate(
    environments: Environments,
    policy: Policy,
    weights: Weights,
    *,
    episodes: int = 50,
    deterministic: bool = True,
    stop_at: float | None = None,
    record_video: int = 0,
    record_every: int = 1,
) -> None:
    """Run `episodes` episodes and report ``success`` (share, 0..1), ``reward`` (mean return) and ``episodes``.

    deterministic: take the likeliest action instead of a random one.
    stop_at: ask the run to stop once this share of the episodes succeeds. With it, an evaluation that can
        no longer get there ends after 10 episodes or later, and reports what it saw so far.
    record_video: make videos of the first so many episodes, in the folder ``videos`` of the run, as
        ``iteration-000050-episode-0-success.mp4``; needs PyAV (``pip install av``).
    record_every: only in evaluations of weights whose version is a multiple of this.

    Episodes whose environment was lost say nothing about the policy and do not count.
    """
    if record_every < 1:
        raise UsageError(f"record_every must be at least 1, got {record_every}", where="evaluate")
    policy.load(weights.arrays)
    finished = successes = failures = 0
    reward = 0.0
    known = False
    running = environments.run(
        policy,
        episodes,
        deterministic=deterministic,
        record=record_video if weights.version % record_every == 0 else 0,
        title=f"iteration-{weights.version:06d}",
    )
    for episode in running:
        if episode.lost:
            continue
        finished += 1
        reward += episode.reward
        known = known or episode.success is not None
        successes += bool(episode.success)
        failures += not episode.success
        if stop_at is not None and finished >= FEWEST_EPISODES and (episodes - failures) / episodes < stop_at:
            break
    if not finished:
        return
    if not known:
        if stop_at is not None:
            raise UsageError(
                "stop_at needs success, which this simulator does not report",
                where="evaluate",
                hint="leave stop_at out and bound the run with iterations=",
            )
        ebrl.report(reward=reward / finished, episodes=finished)
        return
    success = successes / finished
    ebrl.report(success=success, reward=reward / finished, episodes=finished)
    if stop_at is not None and success >= stop_at:
        ebrl.stop(f"success {success:.2f} over {finished} episodes reached the goal of {stop_at:.2f}")
