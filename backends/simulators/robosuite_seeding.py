"""Seeding of a built robosuite environment. Standard library and numpy only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def reseed(environment: Any, seed: int) -> None:
    """Put every generator of the environment into the state of a new one with this seed.

    robosuite hands one generator object to robots, samplers and arenas when it builds them, so setting
    `environment.rng` to another object would leave those behind. A placement sampler given by the user
    has its own.
    """
    state = np.random.default_rng(int(seed)).bit_generator.state
    for generator in _generators(environment):
        generator.bit_generator.state = state


def _generators(environment: Any) -> Iterable[np.random.Generator]:
    pending = [environment, getattr(environment, "placement_initializer", None)]
    found: dict[int, np.random.Generator] = {}
    while pending:
        owner = pending.pop()
        generator = getattr(owner, "rng", None)
        if isinstance(generator, np.random.Generator):
            found[id(generator)] = generator
        samplers = getattr(owner, "samplers", None)
        pending.extend(samplers.values() if isinstance(samplers, dict) else samplers or ())
    return found.values()
