"""The limit of open files, which many environments exceed."""

from __future__ import annotations

import resource

from ebrl.errors import PlanError

PER_ENVIRONMENT = 5
"""Both ends of two pipes, as long as it waits to be started, and a log."""
_OTHERS = 256  # of Dask, Python and the policy


def room() -> int | None:
    """Environments that the system lets one process drive; None without a limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else max(0, (hard - _OTHERS) // PER_ENVIRONMENT)


def allow(environments: int) -> None:
    """Let this process drive so many environments: raises its own limit as far as is needed.

    Raises PlanError where the system does not allow it.
    """
    wanted = PER_ENVIRONMENT * environments + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise PlanError(
            f"{environments} environments in one process need {wanted} open files; this system allows {hard}",
            hint="raise the hard limit (ulimit -Hn), or spread them: replicas= of the simulation stage",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
