"""Whether a simulator keeps what it declared: rewards at every step, observations where one is seen.
Standard library and numpy only, Python 3.8 on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.graph.items import Step
from ebrl.runtime.failure import ContractError
from ebrl.runtime.slots import TEXT_BYTES


def checked_step(step: Any) -> Step:
    """`step`, if a stage may yield it; ContractError says what is wrong with it."""
    if not isinstance(step, Step):
        raise ContractError(f"the simulation stage yielded {kind(step)}; expected Step")
    try:
        finite = math.isfinite(step.reward)
    except TypeError:
        raise ContractError(f"the reward is {kind(step.reward)}; expected a number") from None
    if not finite:
        raise ContractError(f"the reward is {step.reward}")
    return step


def check_observation(spec: SimulatorSpec, observation: Any, call: str) -> None:
    """Raise ContractError unless `observation`, which `call` gave, is as declared."""
    declared = spec.observation
    if not isinstance(observation, dict):
        raise ContractError(f"{call}() gave an observation of type {kind(observation)}; expected Observation")
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


def kind(value: Any) -> str:
    """What `value` is, for messages."""
    return "None" if value is None else type(value).__name__
