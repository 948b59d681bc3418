"""Random numbers that are a pure function of (seed, position): rows of a batch never influence one another.

A generator object per row would cost more than the whole forward pass of a small policy. Here each
number is a hash (splitmix64's finaliser) of its row's seed and its position, for all rows at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_12, _27, _30, _31 = (np.uint64(bits) for bits in (12, 27, 30, 31))
_UNIT = 2.0**-52


def uniform(seeds: Array, count: int) -> Array:
    """[B] uint64 -> [B, count] float64, uniform in the open interval (0, 1)."""
    # The seed is mixed before positions are added: seeds that differ by a multiple of the position
    # increment would otherwise share most of their numbers.
    state = _mix(np.asarray(seeds, np.uint64))
    bits = _mix(state[:, None] + _positions(count))
    bits >>= _12  # 52 bits and a half are exact in float64: neither 0 nor 1 can come out
    numbers: Array = bits.astype(np.float64)
    numbers += 0.5
    numbers *= _UNIT
    return numbers


def normal(seeds: Array, count: int) -> Array:
    """[B] uint64 -> [B, count] float32, standard normal (Box-Muller)."""
    pairs = (count + 1) // 2
    numbers = uniform(seeds, 2 * pairs)
    radius = np.sqrt(-2.0 * np.log(numbers[:, :pairs]))
    angle = numbers[:, pairs:] * (2.0 * np.pi)
    result = np.empty((len(numbers), 2 * pairs), np.float32)
    result[:, :pairs] = radius * np.cos(angle)
    result[:, pairs:] = radius * np.sin(angle)
    return result[:, :count]


@lru_cache(maxsize=64)
def _positions(count: int) -> Array:
    positions: Array = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    positions.setflags(write=False)
    return positions


def _mix(value: Array) -> Array:
    value = (value ^ (value >> _30)) * _MIX_1
    value ^= value >> _27
    value *= _MIX_2
    value ^= value >> _31
    return value
