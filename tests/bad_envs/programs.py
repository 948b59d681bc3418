"""Simulation stages for `EnvironmentOrder.program`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebrl.graph.items import ActionChunk, Step


def simulate(env: Any, chunk: ActionChunk) -> Iterator[Step]:
    for action in chunk:
        yield env.step(action)


def half(env: Any, chunk: ActionChunk) -> Iterator[Step]:
    """Forgets half of the chunk."""
    for action in list(chunk)[: len(chunk) // 2]:
        yield env.step(action)
