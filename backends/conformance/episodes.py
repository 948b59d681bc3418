"""How episodes begin, go on and end. Standard library and numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebrl.backends.conformance.subject import (
    OTHER_SEED,
    SEED,
    SHORT,
    NotApplicable,
    Subject,
    Violation,
    actions,
    difference,
    difference_of_episodes,
    play,
)


def seeding(subject: Subject) -> None:
    """An episode depends on the seed that reset() was given, not on earlier episodes."""
    simulator = subject.simulator
    plan = actions(simulator.spec.action, SHORT)
    first = play(simulator, SEED, plan)
    play(simulator, OTHER_SEED, plan[: SHORT // 2])
    found = difference_of_episodes(first, play(simulator, SEED, plan))
    if found:
        raise Violation(
            f"the same seed and actions gave another episode: {found}",
            "reseed every generator in reset(seed), global ones included",
        )


def second_simulator(subject: Subject) -> None:
    """Two simulators show the same under the same seed: workers are interchangeable."""
    plan = actions(subject.simulator.spec.action, SHORT)
    first = play(subject.simulator, SEED, plan)
    second = subject.another()
    found = difference_of_episodes(first, play(second, SEED, plan))
    subject.close(second)
    if found:
        raise Violation(
            f"a second simulator gave another episode under the same seed: {found}",
            "what is drawn while the simulator is made must not depend on the process",
        )


def other_seeds(subject: Subject) -> None:
    """Two seeds give two episodes, unless spec.extra says that all are the same."""
    simulator = subject.simulator
    if simulator.spec.extra.get("constant"):
        raise NotApplicable("spec.extra['constant'] says that all episodes are the same")
    plan = actions(simulator.spec.action, SHORT)
    first = play(simulator, SEED, plan)
    if all(
        not difference_of_episodes(first, play(simulator, seed, plan)) for seed in range(OTHER_SEED, OTHER_SEED + 3)
    ):
        raise Violation(
            "four seeds gave the same episode",
            "draw the start from the seed, or declare extra={'constant': True} where there is nothing to draw",
        )


def own_arrays(subject: Subject) -> None:
    """Observations own their memory: a later one does not change an earlier one."""
    simulator = subject.simulator
    first = simulator.reset(SEED)
    shown = [(first, _copies(first))]
    for action in actions(simulator.spec.action, 3):
        found = simulator.step(action)
        shown.append((found.observation, _copies(found.observation)))
        if found.terminated or found.truncated:
            break
    for number, (observation, copy) in enumerate(shown[:-1]):
        where = f"step {number}" if number else "reset()"
        following = shown[number + 1][0]
        for key in simulator.spec.observation:
            one, other = observation[key], following[key]
            shared = isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.shares_memory(one, other)
            if shared or difference({key: one}, {key: copy[key]}):
                raise Violation(
                    f"observation {key!r} of {where} shares its memory with the next one", "return a copy of the array"
                )


def _copies(observation: Mapping[str, Any]) -> dict[str, Any]:
    return {key: np.array(value) for key, value in observation.items()}


def time_limit(subject: Subject) -> None:
    """An episode is over after spec.max_episode_steps, and truncated if it did not end by itself."""
    simulator = subject.simulator
    limit = simulator.spec.max_episode_steps
    if limit is None:
        raise NotApplicable("spec.max_episode_steps is None")
    if limit > subject.most_steps:
        raise NotApplicable(f"{limit} steps are more than the {subject.most_steps} that are played here")
    plan = actions(simulator.spec.action, limit)
    for seed in range(SEED, SEED + 3):
        _, steps = play(simulator, seed, plan)
        if not (steps[-1].terminated or steps[-1].truncated):
            raise Violation(
                f"the episode goes on after {limit} steps, which spec.max_episode_steps declares as the most",
                "return truncated=True at the limit",
            )
        if len(steps) == limit:
            return
        if steps[-1].truncated and not steps[-1].terminated:
            raise Violation(f"the episode is truncated after {len(steps)} steps; spec.max_episode_steps is {limit}")
    raise NotApplicable(f"three episodes ended by themselves before their limit of {limit} steps")


def reset_in_mid_episode(subject: Subject) -> None:
    """reset() may come at any time, and the new episode is like any other."""
    simulator = subject.simulator
    plan = actions(simulator.spec.action, SHORT)
    whole = play(simulator, SEED, plan)
    play(simulator, OTHER_SEED, plan[:2])
    found = difference_of_episodes(whole, play(simulator, SEED, plan))
    if found:
        raise Violation(f"an episode after a reset() in mid-episode differs: {found}")


def clipping(subject: Subject) -> None:
    """Actions at their bounds work; beyond them they count as the bound, and are left as they are."""
    simulator = subject.simulator
    space = simulator.spec.action
    if space.low is None and space.high is None:
        raise NotApplicable("spec.action declares no range")
    for name, bound, sign in (("low", space.low, -1), ("high", space.high, 1)):
        if bound is None:
            continue
        (inside,) = actions(space, 1)
        at = np.where(np.isfinite(bound), np.broadcast_to(bound, space.shape), inside).astype(space.dtype)
        beyond = np.where(np.isfinite(bound), at + sign * 3, at).astype(space.dtype)
        given = beyond.copy()
        found = difference_of_episodes(play(simulator, SEED, [at] * 2), play(simulator, SEED, [beyond] * 2))
        if found:
            raise Violation(
                f"an action beyond the {name} of spec.action counts for more than the bound: {found}",
                "clip actions to the declared range in step()",
            )
        if not np.array_equal(beyond, given):
            raise Violation("step() writes into the action that it was given", "clip into a new array")
