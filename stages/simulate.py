"""Simulation: one environment executes one action chunk."""

from __future__ import annotations

from collections.abc import Iterator

from ebrl.backends.protocols import Simulator
from ebrl.graph.items import ActionChunk, Step
from ebrl.graph.stage import simulation


@simulation
def simulate(env: Simulator, chunk: ActionChunk) -> Iterator[Step]:
    """Execute the actions of a chunk in order.

    Each yield is a step boundary: at some of them the core goes to another environment. After a step that
    ends the episode the rest of the chunk is not asked for.
    """
    for action in chunk:
        yield env.step(action)
