"""Request: what `ebrl.launch` was asked for, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from ebrl.errors import UsageError
from ebrl.graph.load import loading
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import declared, mechanisms
from ebrl.graph.workflow import Workflow
from ebrl.observe.run_config import LARGEST_SEED
from ebrl.planner.profile import Profile
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.placement import INSIDE


@attrs.define(frozen=True, kw_only=True)
class Request:
    """The arguments of `ebrl.launch`."""

    graph: Graph
    run_dir: str | Path | None
    schedule: str
    without: Sequence[str]
    scheduler: str | None
    seed: int
    resume: str | Path | None
    resources: ResourcePool | None = None
    plan: Plan | None = None
    profile: Profile | None = None
    replan: bool = True

    def check(self, place: str) -> None:
        """Raise UsageError, which names `place`, for what can never become a run."""

        def refuse(message: str, hint: str) -> None:
            raise UsageError(message, where="ebrl.launch", place=place, hint=hint)

        if loading.get() or INSIDE in os.environ:
            refuse("a run would start while the workflow file is imported", 'put it under `if __name__ == "__main__":`')
        graph, seed = self._as_given("graph"), self._as_given("seed")
        if isinstance(graph, Workflow):
            name = graph.__name__
            refuse(f"{name!r} is a workflow, and a run needs its graph", f"call it: ebrl.launch({name}())")
        if not isinstance(graph, Graph):
            refuse(f"a run needs a graph, got {type(graph).__name__}", "call a function decorated with @ebrl.workflow")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
            refuse(f"seed must be a whole number from 0 to {LARGEST_SEED}, got {seed!r}", "left out, it is 0")
        if isinstance(self.without, str):
            refuse(f"without must be several names, got {self.without!r}", f"write without=[{self.without!r}]")
        try:
            declared(self.schedule, self.without)
        except UsageError as error:
            refuse(error.message, error.hint or "")
        if self.plan is not None and self.profile is not None:
            refuse("a plan cannot be combined with a profile", "a profile makes a plan; leave one out")
        if self.plan is not None and self.plan.schedule != self.schedule:
            refuse(f"the plan has the schedule {self.plan.schedule!r}, asked for is {self.schedule!r}", "leave one out")
        if self.plan is not None and self.plan.without != mechanisms(self.without):
            refuse(
                f"the plan goes without {_listed(self.plan.without)}, asked for is {_listed(self.without)}",
                "leave one out",
            )
        for name in ("run_dir", "resume"):
            if not isinstance(given := self._as_given(name), str | Path | None):
                refuse(f"{name} must be a path, got {given!r}", "a str or a pathlib.Path")
        if not isinstance(pool := self._as_given("resources"), ResourcePool | None):
            refuse(f"resources must be a ResourcePool, got {pool!r}", 'ebrl.ResourcePool.discover(cores="0-7")')
        if self.resources is not None and self.scheduler is not None:
            refuse(
                "resources cannot be combined with scheduler", "they are of this machine; `ebrl worker` offers its own"
            )
        if self.run_dir is not None and self.resume is not None:
            refuse("run_dir cannot be combined with resume", "a resumed run keeps its directory")

    def _as_given(self, name: str) -> Any:
        """An argument of whatever type the caller really passed."""
        return getattr(self, name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
