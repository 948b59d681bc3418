"""One repetition of one variant of `pinning.py`; its argument is the order as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from timed_rollout import Stub, TimedRollout

from ebrl.backends.registry import parse_uri, simulator_origin
from ebrl.interpreters.choose import interpreter_of
from ebrl.runtime.rollout import RolloutSettings
from ebrl.runtime.trial import order_of

_BATCHES_IN_FLIGHT = 2
_FEWEST_BATCHES = 2


def main(order: dict[str, Any]) -> dict[str, Any]:
    """order: simulator (its address), variant, num_envs, cores, chunk, window, seed, skip, measure_s."""
    batches = 0

    def recorded(number: int, trajectories: Any) -> None:
        nonlocal batches
        batches += 1

    def lost(account: dict[str, Any]) -> None:
        raise RuntimeError(f"the repetition is no measurement, it lost an environment: {account}")

    rollout = TimedRollout(
        _settings(order), make_actor=lambda made: Stub(made, order["seed"]), on_batch=recorded, on_lost=lost
    )
    try:
        while rollout.slots is None:
            rollout.poll(0.5)
        admitted, first, began_s = 0, order["skip"], 0.0
        while True:
            while admitted < batches + _BATCHES_IN_FLIGHT:
                rollout.admit(admitted, order["num_envs"], 0)
                admitted += 1
            before = batches
            rollout.poll(0.5)
            if batches == before:
                continue
            now_s = time.monotonic()
            if not began_s and batches >= first:
                first, began_s = batches, now_s
                rollout.latencies_s.clear()
            elif began_s and batches - first >= _FEWEST_BATCHES and now_s - began_s >= order["measure_s"]:
                break
        latencies_ms = 1e3 * np.array(rollout.latencies_s)
    finally:
        rollout.close()
    p50, p99 = np.percentile(latencies_ms, [50, 99])
    steps = (batches - first) * order["num_envs"] * order["window"] * order["chunk"]
    return {
        "wall_s": now_s - began_s,
        "env_steps": steps,
        "env_steps_per_s": steps / (now_s - began_s),
        "chunks": len(latencies_ms),
        "chunk_ms": {"mean": float(latencies_ms.mean()), "P50": float(p50), "P99": float(p99)},
    }


def _settings(order: dict[str, Any]) -> RolloutSettings:
    variant, cores = order["variant"], tuple(order["cores"])
    backend, target, options = parse_uri(order["simulator"])
    return RolloutSettings(
        order=order_of(simulator_origin(backend), target, options, interpreter_of(backend), order["simulator"]),
        num_envs=order["num_envs"],
        num_steps=order["window"],
        chunk=order["chunk"],
        # As many as environments: the dispatcher holds nobody back, and what it calls a core is none.
        cores=tuple(range(order["num_envs"])) if variant == "os" else cores,
        bind=variant == "bound",
        quantum=order["chunk"] if variant == "os" else 1,
        seed=order["seed"],
        in_order=True,  # whoever is slow owes as much as the others
    )


if __name__ == "__main__":
    from rounds import answer

    answer(main(json.loads(sys.argv[1])))
