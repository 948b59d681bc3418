"""What a simulator shows against what it declares. Standard library and numpy only."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np

from ebrl.backends.conformance.subject import SEED, SHORT, Subject, Violation, actions, play
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.runtime.contract import check_declared, check_observation, kind

_OBSERVED = ("float32", "uint8", "str", "int64", "int32", "bool")
_ACTED = ("float32", "int64")


def spec(subject: Subject) -> None:
    """The spec is complete and can be sent to other processes."""
    found = getattr(subject.simulator, "spec", None)
    if not isinstance(found, SimulatorSpec):
        raise Violation(f"spec is {kind(found)}; expected ebrl.SimulatorSpec")
    check_declared(found)
    for key, space in found.observation.items():
        _space(f"spec.observation[{key!r}]", space, _OBSERVED)
    _space("spec.action", found.action, _ACTED)
    steps, hertz = found.max_episode_steps, found.control_hz
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise Violation(f"spec.max_episode_steps is {steps!r}; expected a positive int, or None where nothing cuts")
    if hertz is not None and not (isinstance(hertz, (int, float)) and math.isfinite(hertz) and hertz > 0):
        raise Violation(f"spec.control_hz is {hertz!r}; expected actions per second above 0, or None")
    if not isinstance(found.instruction, str):
        raise Violation(f"spec.instruction is {kind(found.instruction)}; expected text")
    try:
        pickle.loads(pickle.dumps(found, 4))
    except Exception as cause:
        raise Violation(f"spec cannot be pickled: {kind(cause)}: {cause}", "keep objects out of spec.extra") from cause


def _space(where: str, space: Any, dtypes: tuple[str, ...]) -> None:
    if not isinstance(space, Space):
        raise Violation(f"{where} is {kind(space)}; expected ebrl.Space")
    if space.dtype not in dtypes:
        raise Violation(f"{where} has dtype {space.dtype!r}; expected one of {', '.join(dtypes)}")
    if 0 in space.shape:
        raise Violation(f"{where} has shape {space.shape!r}; expected a tuple of positive ints")
    if space.dtype == "str":
        return
    for name, bound in (("low", space.low), ("high", space.high)):
        if bound is None:
            continue
        try:
            np.broadcast_to(np.asarray(bound, np.float64), space.shape)
        except (TypeError, ValueError):
            raise Violation(f"{where}.{name} does not fit shape {space.shape}") from None
    if space.low is not None and space.high is not None and not np.all(np.asarray(space.low) <= np.asarray(space.high)):
        raise Violation(f"{where} has a low above its high")


def reset(subject: Subject) -> None:
    """reset() shows what the spec declares."""
    check_observation(subject.simulator.spec, subject.simulator.reset(SEED), "reset")


def step(subject: Subject) -> None:
    """step() shows what the spec declares, and flags that are booleans."""
    simulator = subject.simulator
    _, steps = play(simulator, SEED, actions(simulator.spec.action, SHORT))
    for number, found in enumerate(steps, 1):
        check_observation(simulator.spec, found.observation, "step")
        for name in ("terminated", "truncated"):
            flag = getattr(found, name)
            if not isinstance(flag, (bool, np.bool_)):
                raise Violation(f"{name} of step {number} is {kind(flag)}; expected bool")


def ranges(subject: Subject) -> None:
    """Observations stay within the range that the spec declares."""
    simulator = subject.simulator
    first, steps = play(simulator, SEED, actions(simulator.spec.action, SHORT))
    for number, observation in enumerate([first, *(found.observation for found in steps)]):
        where = f"step {number}" if number else "reset()"
        for key, space in simulator.spec.observation.items():
            value = np.asarray(observation[key]) if space.dtype != "str" else np.zeros(0)
            slack = 1e-5 * (1.0 + np.abs(value))  # numbers are rounded to float32 on their way
            if space.low is not None and (value < space.low - slack).any():
                low = np.min(value - space.low)
                raise Violation(f"observation {key!r} of {where} is {-low:g} below its declared low")
            if space.high is not None and (value > space.high + slack).any():
                high = np.max(value - space.high)
                raise Violation(f"observation {key!r} of {where} is {high:g} above its declared high")


def reward(subject: Subject) -> None:
    """Rewards are finite numbers."""
    simulator = subject.simulator
    for number, found in enumerate(play(simulator, SEED, actions(simulator.spec.action, SHORT))[1], 1):
        if isinstance(found.reward, (bool, np.bool_)) or not isinstance(
            found.reward, (int, float, np.floating, np.integer)
        ):
            raise Violation(f"the reward of step {number} is {kind(found.reward)}; expected a float")
        if not math.isfinite(found.reward):
            raise Violation(f"the reward of step {number} is {found.reward}")


def success(subject: Subject) -> None:
    """Success is True, False, or None where the simulator does not say."""
    simulator = subject.simulator
    values = [found.success for found in play(simulator, SEED, actions(simulator.spec.action, SHORT))[1]]
    for number, value in enumerate(values, 1):
        if value is not None and not isinstance(value, (bool, np.bool_)):
            raise Violation(f"the success of step {number} is {kind(value)}; expected bool or None")
