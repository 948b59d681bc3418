"""Event: what a run tells its observers. The recorder, the progress display and tests all read the same events.

| kind | data |
|---|---|
| ``started`` | plan (Plan), dashboard_link, run_dir, workers {name: resources} |
| ``iteration`` | one flat dict of numbers, the `stats` of `ebrl.runtime.driver.Iteration` |
| ``report`` | stage, iteration, metrics: what an item stage such as an evaluation reported |
| ``environment_lost`` | stage, environment, simulator, seed, episode, step, doing, message, detail, hint, restart |
| ``worker_replaced`` | worker, cause |
| ``checkpoint`` | path, iteration |
| ``checkpoint_failed`` | iteration, message |
| ``skipped`` | stage, iteration: it was still busy with an earlier one |
| ``video`` | stage, iteration, path of the file |
| ``warning`` | stage, iteration, message |
| ``learning`` | stage, threads, planned: other threads than planned are tried for a few iterations |
| ``replan`` | a new plan: step, epoch, plan (Plan), changes, measured, corrections, predicted and achieved gains |
| ``revert`` | the same, where the plan before it is taken up again |
| ``outcome`` | the same without plan, a while later: what the last new plan has brought |
| ``kept`` | the same without plan, where the planner found nothing that pays; ``reason`` says why |
| ``waiting`` | tasks: what the run has waited for without any news |
| ``stopping`` | reason |
| ``finished`` | the summary of the run |

Observers ignore kinds that they do not know.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import attrs


@attrs.define(frozen=True, kw_only=True)
class Event:
    """One thing that happened in a run."""

    kind: str
    time_s: float
    """Unix time in seconds."""
    data: Mapping[str, Any] = attrs.field(factory=dict)

    @staticmethod
    def now(kind: str, **data: Any) -> Event:
        """An event that happens at this moment."""
        return Event(kind=kind, time_s=time.time(), data=data)


class Observer(Protocol):
    """Called with every event, in order, on the thread that drives the run; must return quickly."""

    def __call__(self, event: Event) -> None: ...
