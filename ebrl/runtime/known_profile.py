"""The profile that lies ready for a workflow on this machine, where `ebrl profile` has kept one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ebrl.errors import UsageError
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.planner.profile import Profile, doubts, file_name, read_profile
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.described import described

FOLDER = "profiles"
"""In the working directory, where `ebrl profile` writes, or beside the workflow file."""


def known_profile(graph: Graph, plan: Plan, pool: ResourcePool) -> tuple[Profile | None, str]:
    """The profile to plan with, and one line on it; None and the reason where one is stale or of another machine.

    Where `plan` allows no staleness there is none: results then do not depend on what was measured. Nor where it
    goes without allocation.
    """
    reason = ""
    wanted = plan.max_staleness > 0 and "allocation" not in plan.without
    for path in _candidates(graph, plan, pool) if wanted else ():
        try:
            found = read_profile(path)
        except UsageError as error:
            reason = reason or f"a profile is not used: {error.message}"
            continue
        if why := why_not(found, graph, plan, pool):
            reason = reason or f"the profile {path} is not used: {why}; ebrl profile measures again"
        else:
            return found, f"planned with the profile {path}"
    return None, reason


def why_not(profile: Profile, graph: Graph, plan: Plan, pool: ResourcePool) -> str:
    """Why `profile` may not hold for `graph` here, in one line; empty where nothing speaks against it."""
    missing = (f"it says nothing of the {stage}" for stage in profile.missing)
    return "; ".join([*doubts(profile, described(graph, plan, pool)), *missing])


def _candidates(graph: Graph, plan: Plan, pool: ResourcePool) -> Iterator[Path]:
    """Files of this simulator and policy, those of this machine first."""
    folders = [Path(FOLDER), *([Path(graph.folder) / FOLDER] if graph.folder else [])]
    files: dict[Path, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            files.setdefault(path.resolve(), path)  # both folders may be the same one
    if not files:
        return
    wanted = described(graph, plan, pool)
    name = file_name(wanted["machine"], wanted["simulator"], wanted["policy"])
    of_these = [path for path in files.values() if path.name.partition("-")[2] == name.partition("-")[2]]
    yield from sorted(of_these, key=lambda path: path.name != name)
