"""Whether a simulator keeps what it declared: rewards at every step, observations where one is seen.
Standard library and numpy only, Python 3.8 on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Step
from ebrl.runtime.failure import ContractError
from ebrl.runtime.slots import TEXT_BYTES

_LARGEST = float(np.finfo(np.float32).max)
"""Policies compute in float32: more would be infinite there."""
_RETURN = "return ebrl.Step(observation, reward, terminated, truncated, success)"


def check_spec(spec: SimulatorSpec) -> None:
    """Raise ContractError where no policy could work with `spec`."""
    check_declared(spec)
    if not isinstance(spec.action, Space):
        raise ContractError(f"spec.action is {kind(spec.action)}; expected ebrl.Space")
    if spec.action.dtype == "str" or 0 in spec.action.shape:
        raise ContractError(f"spec.action is {_form(spec.action)}; expected at least one number")


def check_declared(spec: SimulatorSpec) -> None:
    """Raise ContractError unless `spec` declares observations by name."""
    if not isinstance(spec.observation, Mapping) or not spec.observation:
        raise ContractError("spec.observation declares nothing; expected at least one key with its Space")
    for key, space in spec.observation.items():
        if not isinstance(key, str):
            raise ContractError(f"spec.observation has the key {key!r}; expected text")
        if not isinstance(space, Space):
            raise ContractError(f"spec.observation['{key}'] is {kind(space)}; expected ebrl.Space")


def checked_step(step: Any) -> Step:
    """`step`, if a stage may yield it; ContractError says what is wrong with it."""
    if not isinstance(step, Step):
        raise ContractError(f"the simulation stage yielded {kind(step)}; expected Step", _RETURN)
    try:
        fits = math.isfinite(step.reward) and -_LARGEST <= step.reward <= _LARGEST
    except TypeError:
        raise ContractError(f"the reward is {kind(step.reward)}; expected a number") from None
    except OverflowError:
        raise ContractError("the reward is an int beyond float32") from None
    if not fits:
        beyond = ", beyond float32" if math.isfinite(step.reward) else ""
        raise ContractError(f"the reward is {step.reward}{beyond}")
    for name, flag in (("terminated", step.terminated), ("truncated", step.truncated)):
        if not _is_flag(flag):
            raise ContractError(f"{name} is {flag!r:.80}; expected True or False")
    success = step.success
    if success is not None and not _is_flag(success):
        got = f"{kind(success)} {success.shape}" if isinstance(success, np.ndarray) else repr(success)[:80]
        raise ContractError(f"success is {got}; expected True, False or None")
    return step


def _is_flag(value: Any) -> bool:
    return value is True or value is False or isinstance(value, np.bool_)


def difference(first: SimulatorSpec, other: SimulatorSpec) -> str:
    """In what `other` cannot take part in a rollout that was laid out for `first`; empty where it can."""
    for key in {**first.observation, **other.observation}:
        if (declared := _form(first.observation.get(key))) != (got := _form(other.observation.get(key))):
            return f"observation '{key}': the first environment declared {declared}, this one {got}"
    if (declared := _form(first.action)) != (got := _form(other.action)):
        return f"the action: the first environment declared {declared}, this one {got}"
    for name in ("low", "high"):
        if not np.array_equal(getattr(first.action, name), getattr(other.action, name)):
            return f"the action: its {name} differs from that of the first environment"
    return ""


def _form(space: Space | None) -> str:
    return "nothing" if space is None else f"{space.dtype} {space.shape}"


def check_observation(spec: SimulatorSpec, observation: Any, call: str) -> None:
    """Raise ContractError unless `observation`, which `call` gave, is as declared."""
    declared = spec.observation
    if not isinstance(observation, dict):
        hint = "return the observation alone" if isinstance(observation, tuple) else ""
        raise ContractError(f"{call}() gave an observation of type {kind(observation)}; expected Observation", hint)
    for key, space in declared.items():
        if key not in observation:
            raise ContractError(f"{call}() gave no observation '{key}'; declared: {', '.join(declared)}")
        _check(key, space, observation[key], call)


def _check(key: str, space: Space, value: Any, call: str) -> None:
    if space.dtype == "str":
        if not isinstance(value, str):
            raise ContractError(f"observation '{key}' from {call}(): expected text, got {kind(value)}")
        if len(value.encode()) > TEXT_BYTES:
            raise ContractError(f"observation '{key}' from {call}(): text of more than {TEXT_BYTES} bytes")
        return
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or str(dtype) != space.dtype or shape != tuple(space.shape):
        got = f"{dtype} {shape}" if dtype is not None else kind(value)
        raise ContractError(
            f"observation '{key}' from {call}(): expected {space.dtype} {tuple(space.shape)}, got {got}"
        )
    # The sum of floats is finite only where all are; one pass, no temporary.
    if dtype.kind == "f" and not math.isfinite(value.sum()) and not np.isfinite(value).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
        error = ContractError(f"observation '{key}' from {call}() is {value[index]} at index {index}")
        error.__notes__ = [np.array2string(value, threshold=100)]  # `add_note` came with Python 3.11
        raise error
    if dtype.kind == "f" and dtype.itemsize > 4 and value.size and max(value.max(), -value.min()) > _LARGEST:
        raise ContractError(f"observation '{key}' from {call}() holds {np.abs(value).max()}, beyond float32")


def kind(value: Any) -> str:
    """What `value` is, for messages."""
    return "None" if value is None else type(value).__name__
