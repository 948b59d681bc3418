"""Faults of environments: which are overdue, and how a loss is told to the run and to its user."""

from __future__ import annotations

from typing import Any

from ebrl import errors
from ebrl.runtime.environment import EnvironmentGone
from ebrl.runtime.environment_state import EnvironmentState
from ebrl.runtime.rollout_settings import Deadlines, RolloutSettings
from ebrl.runtime.seeding import reset_seed


def overdue(environment: EnvironmentState, deadlines: Deadlines, now: float) -> EnvironmentGone | None:
    """What is wrong with an environment that has not answered in time."""
    limit_s = deadlines.of(environment.work)
    if not environment.began_s or limit_s is None or now - environment.began_s <= limit_s:
        return None
    stack = environment.process.dump_stack()
    return EnvironmentGone(f"no answer to {environment.work} within {limit_s:g} s", stack)


def account(environment: EnvironmentState, gone: EnvironmentGone, settings: RolloutSettings) -> dict[str, Any]:
    """A loss as plain data: who, where in which episode, why, and what happens next."""
    done = environment.steps + environment.executed
    return {
        "environment": environment.number,
        "simulator": settings.order.name,
        "episode": environment.episode,
        "step": done + 1 if environment.work == "step" else done,  # the step that failed, counted from 1
        "seed": reset_seed(settings.seed, settings.purpose, environment.number, environment.episode),
        "doing": environment.work,
        "message": gone.message,
        "detail": gone.detail,
        "hint": gone.hint,
        "restart": environment.restarts < settings.most_restarts,
    }


def cannot_start(gone: EnvironmentGone, settings: RolloutSettings) -> errors.EbrlError:
    """No environment has ever started: the fault is the simulator's or the workflow's."""
    where = f"{settings.purpose}.env"
    if gone.exit_code == errors.UsageError.exit_code:
        return errors.SimulatorNotFound(gone.message, where=where, detail=gone.detail, hint=gone.hint)
    return errors.SimulatorError(
        f"{settings.order.name}: {gone.message}", where=where, detail=gone.detail, hint=gone.hint
    )


def too_few(first: EnvironmentGone, settings: RolloutSettings) -> errors.SimulatorError:
    """So many environments were given up that the run makes no sense; `first` is why the first was."""
    return errors.SimulatorError(
        f"{settings.order.name}: fewer than half of {settings.num_envs} environments are alive; "
        f"the first was given up after: {first.message}",
        where=f"{settings.purpose}.env",
        detail=first.detail,
        hint=first.hint,
    )
