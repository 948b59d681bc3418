"""One repetition of one size of `engine_cost.py`; its argument is the order as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from timed_rollout import Stub, Supply

from ebrl.runtime.order import EnvironmentOrder
from ebrl.runtime.rollout import Rollout, RolloutSettings

_WINDOW = 8  # chunk-steps: every environment ends one in a measurement at least


def main(order: dict[str, Any]) -> dict[str, Any]:
    """order: num_envs, cores, chunk, quantum, skip_steps, env_steps (of all together)."""
    supply = Supply()
    rollout = Rollout(
        RolloutSettings(
            order=EnvironmentOrder(
                name="stub",
                factory={"module": "stub_simulator", "name": "StubSimulator"},
                target="",
                options={},
                program={"module": "ebrl.runtime.birth", "name": "execute"},
                path=[str(Path(__file__).parent)],
            ),
            num_envs=order["num_envs"],
            num_steps=_WINDOW,
            chunk=order["chunk"],
            cores=tuple(order["cores"]),
            quantum=order["quantum"],
            batch_size=order["num_envs"],
        ),
        make_actor=lambda made: Stub(made, 0),
        on_batch=supply.batch_done,
        on_lost=_lost,
    )
    try:
        while rollout.slots is None or any(state.work == "start" for state in rollout._environments):
            rollout.poll(0.5)
        _poll_until(rollout, supply, order["skip_steps"])
        steps, wall_s, cpu_s = rollout.env_steps, time.monotonic(), time.thread_time()
        _poll_until(rollout, supply, steps + order["env_steps"])
        cpu_s, wall_s = time.thread_time() - cpu_s, time.monotonic() - wall_s
        done = rollout.env_steps - steps
    finally:
        rollout.close()
    return {"us_per_step": 1e6 * cpu_s / done, "us_per_chunk": 1e6 * cpu_s * order["chunk"] / done, "wall_s": wall_s}


def _poll_until(rollout: Rollout, supply: Supply, env_steps: int) -> None:
    while rollout.env_steps < env_steps:
        supply.poll(rollout, 0.5)


def _lost(account: dict[str, Any]) -> None:
    raise RuntimeError(f"the repetition is no measurement, it lost an environment: {account}")


if __name__ == "__main__":
    from rounds import answer

    answer(main(json.loads(sys.argv[1])))
