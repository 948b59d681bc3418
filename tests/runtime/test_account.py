"""What news say of the time that trajectories and weights travel."""

from __future__ import annotations

from typing import Any

import pytest

from ebrl.runtime.account import Account


def rolled(batch: int, ended_s: float) -> dict[str, Any]:
    return {
        "stage": "simulate", "replica": "simulate-0", "batch": batch, "env_steps": 8, "chunks": 8, "episodes": [],
        "simulator_cpu_s": 1.0, "engine_cpu_s": 0.1, "cores": 2, "idle": 0.0, "queue_depth": 0, "ended_s": ended_s,
    }  # fmt: skip


def trained(iteration: int, began_s: float) -> dict[str, Any]:
    return {
        "stage": "train", "replica": "train-0", "iteration": iteration, "metrics": {}, "stop": None, "cpu_s": 1.0,
        "threads": 1, "began_s": began_s, "train_s": 1.0, "staleness_mean": 0.0, "staleness_max": 0,
    }  # fmt: skip


def served(version: int, loaded_s: float) -> dict[str, Any]:
    return {
        "stage": "generate", "replica": "generate-0", "version": version, "loaded_s": loaded_s, "cpu_s": 0.1,
        "requests": 8, "batch_size": 4, "wait_ms": 0.1, "compute_ms": 1.0, "idle": 0.5,
    }  # fmt: skip


def test_what_travels() -> None:
    account = Account()
    account.generated(served(0, 0.5))  # nothing was trained before
    ends = ((0, 10.0, 10.2), (1, 12.0, 12.3), (2, 12.5, 13.4))  # the last batch waits for the training before
    for iteration, rolled_s, began_s in ends:
        account.rolled(rolled(iteration, rolled_s))
        account.trained(trained(iteration, began_s))
        account.close(iteration, 2.0)
        account.generated(served(iteration + 1, began_s + 1.0 + 0.05))
    assert list(account.gathering_s) == pytest.approx([0.3])  # nor is the first one known
    assert list(account.publishing_s) == pytest.approx([0.05] * 3)
    assert account.wall_s == 2.0


def test_only_the_newest_are_kept() -> None:
    account = Account()
    for iteration in range(100):
        account.rolled(rolled(iteration, 2.0 * iteration))
        account.trained(trained(iteration, 2.0 * iteration + 0.5))
        account.close(iteration, 2.0)
        account.generated(served(iteration + 1, 2.0 * iteration + 1.6))
    assert len(account.gathering_s) == len(account.publishing_s) == 32
