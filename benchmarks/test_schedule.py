"""Microseconds of the pure decisions: pytest benchmarks --benchmark-only."""

from __future__ import annotations

from typing import Any

import pytest

from ebrl.schedule.batcher import Batcher
from ebrl.schedule.dispatcher import StepDispatcher


@pytest.mark.parametrize("environments", [8, 64, 1024])
def test_one_dispatch(benchmark: Any, environments: int) -> None:
    """A step ends, its environment is ready again, and the next one is chosen."""
    dispatcher = StepDispatcher(cores=tuple(range(8)))
    for environment in range(environments):
        dispatcher.ready(environment)
    running = [environment for environment, _ in dispatcher.dispatch()]

    def step() -> None:
        finished = running.pop(0)
        dispatcher.finished(finished, 0.01)
        dispatcher.ready(finished)
        running.extend(environment for environment, _ in dispatcher.dispatch())

    benchmark(step)


@pytest.mark.parametrize("batch_size", [8, 64])
def test_one_batch(benchmark: Any, batch_size: int) -> None:
    """Requests arrive one by one and leave as a batch."""
    batcher: Batcher[int] = Batcher(batch_size=batch_size)

    def fill() -> None:
        for request in range(batch_size):
            batcher.arrived([request], min_versions=[0], version=0, hungry=False)
        assert len(batcher.take()) == batch_size

    benchmark(fill)
