"""One repetition of one variant of `chunk_latency.py`; its argument is the order as JSON."""

from __future__ import annotations

import json
import select
import selectors
import sys
import time
from typing import Any

import numpy as np
from steady_state import descendants_cpu_s
from timed_rollout import Stub, TimedRollout

from ebrl.backends.registry import parse_uri, simulator_origin
from ebrl.interpreters.choose import interpreter_of
from ebrl.runtime.environment import EnvironmentProcess, Reply, leave
from ebrl.runtime.order import EnvironmentOrder
from ebrl.runtime.rollout import RolloutSettings
from ebrl.runtime.slots import Slots, anonymous_memory, layout
from ebrl.runtime.trial import order_of
from ebrl.runtime.warm import WarmProcess

_WINDOW = 4096  # chunk-steps: more than any environment does in a measurement, see `chunk_latency`


def main(order: dict[str, Any]) -> dict[str, Any]:
    """order: simulator (its address), variant, num_envs, cores, chunk, seed, warm_up_s, measure_s."""
    backend, target, options = parse_uri(order["simulator"])
    simulator = order_of(simulator_origin(backend), target, options, interpreter_of(backend), order["simulator"])
    measured = _lock_step(simulator, order) if order["variant"] == "lock-step" else _rollout(simulator, order)
    latencies_ms = 1e3 * np.array(measured["latencies_s"])
    p50, p99 = np.percentile(latencies_ms, [50, 99])
    return {
        "env_steps_per_s": measured["env_steps"] / measured["wall_s"],
        "busy": measured["cpu_s"] / (measured["wall_s"] * len(order["cores"])),
        "core_ms_per_step": 1e3 * measured["cpu_s"] / measured["env_steps"],
        "chunks": len(latencies_ms),
        "chunk_ms": {"mean": float(latencies_ms.mean()), "P50": float(p50), "P99": float(p99)},
    }


def _rollout(simulator: EnvironmentOrder, order: dict[str, Any]) -> dict[str, Any]:
    """The engine's rollout: every environment gets its next chunk as soon as it asks."""
    variant, free = order["variant"], order["variant"] == "free"
    rollout = TimedRollout(
        RolloutSettings(
            order=simulator,
            num_envs=order["num_envs"],
            num_steps=_WINDOW,
            chunk=order["chunk"],
            # As many as environments: nobody is held back, and what is called a core is none.
            cores=tuple(range(order["num_envs"])) if free else tuple(order["cores"]),
            bind=variant == "bound",
            quantum=order["chunk"] if free else 1,
            seed=order["seed"],
        ),
        make_actor=lambda made: Stub(made, order["seed"]),
        on_batch=lambda number, trajectories: None,
        on_lost=_lost,
    )
    try:
        while rollout.slots is None or any(state.work in ("start", "reset") for state in rollout._environments):
            rollout.poll(0.5)
        rollout.admit(0, order["num_envs"], 0)
        _poll_for(rollout, order["warm_up_s"])
        rollout.latencies_s.clear()
        steps, began_s, cpu_s = rollout.env_steps, time.monotonic(), descendants_cpu_s()
        _poll_for(rollout, order["measure_s"], chunks=order["num_envs"])
        return {
            "latencies_s": list(rollout.latencies_s),
            "env_steps": rollout.env_steps - steps,
            "wall_s": time.monotonic() - began_s,
            "cpu_s": descendants_cpu_s() - cpu_s,
        }
    finally:
        rollout.close()


def _poll_for(rollout: TimedRollout, seconds: float, chunks: int = 0) -> None:
    """At least `seconds`, and until `chunks` are done: on a slow machine one may take longer than that."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0 or len(rollout.latencies_s) < chunks:
        rollout.poll(left_s if left_s > 0 else 0.5)
        if any(state.window is None for state in rollout._environments):
            raise RuntimeError("the repetition is no measurement, an environment had nothing left to do")


def _lost(account: dict[str, Any]) -> None:
    raise RuntimeError(f"the repetition is no measurement, it lost an environment: {account}")


def _lock_step(simulator: EnvironmentOrder, order: dict[str, Any]) -> dict[str, Any]:
    """All environments step together, as in a vector environment: the next step begins when the last one is done,
    and who ended an episode is reset on the way."""
    lock = _LockStep(simulator, order["num_envs"], order["chunk"], order["seed"])
    try:
        end_s = time.monotonic() + order["warm_up_s"]
        while time.monotonic() < end_s:
            lock.chunk()
        latencies_s, began_s, cpu_s = [], time.monotonic(), descendants_cpu_s()
        while time.monotonic() < began_s + order["measure_s"]:
            latencies_s += [lock.chunk()] * order["num_envs"]
        wall_s = time.monotonic() - began_s
        return {
            "latencies_s": latencies_s,
            "env_steps": len(latencies_s) * order["chunk"],
            "wall_s": wall_s,
            "cpu_s": descendants_cpu_s() - cpu_s,
        }
    finally:
        lock.close()


def _warmed(simulator: EnvironmentOrder) -> WarmProcess:
    warm = WarmProcess(simulator)
    while warm.state == "warming":
        select.select([warm], [], [])
        warm.receive()
    return warm


class _LockStep:
    def __init__(self, simulator: EnvironmentOrder, num_envs: int, chunk: int, seed: int) -> None:
        self._memory = anonymous_memory()
        self._warm = _warmed(simulator)  # the rollout's environments begin there too
        self._processes = [
            EnvironmentProcess(row, simulator, self._memory, row, warm=self._warm) for row in range(num_envs)
        ]
        self._selector = selectors.DefaultSelector()
        for process in self._processes:
            self._selector.register(process.descriptor, selectors.EVENT_READ, process)
        self._random, self._chunk, self._seed = np.random.default_rng(seed), chunk, seed
        self._answers(self._processes)
        spec = self._processes[0].spec
        assert spec is not None
        self._slots = Slots.create(self._memory, layout(spec, rows=num_envs, chunk=chunk))
        for process in self._processes:
            process.attach(self._slots.layout)
        self._reset(self._processes)

    def chunk(self) -> float:
        """Seconds from new actions to the last step of all."""
        actions = self._slots["actions"]
        actions[:] = self._random.normal(0.0, 0.6, actions.shape)
        began_s, first = time.monotonic(), set(self._processes)
        for _ in range(self._chunk):
            for process in self._processes:
                process.step(1, first=process in first)
            answers = self._answers(self._processes)
            ended = [process for process, reply in answers.items() if reply.terminated or reply.truncated]
            self._reset(ended)
            first = set(ended)  # the rest of its chunk goes to the next episode, as vector environments do
        return time.monotonic() - began_s

    def close(self) -> None:
        leave(self._processes)
        self._warm.close()

    def _reset(self, processes: list[EnvironmentProcess]) -> None:
        for process in processes:
            self._seed += 1
            process.reset(self._seed)
        self._answers(processes)

    def _answers(self, processes: list[EnvironmentProcess]) -> dict[EnvironmentProcess, Reply]:
        found: dict[EnvironmentProcess, Reply] = {}
        while len(found) < len(processes):
            for key, _ in self._selector.select():
                if (reply := key.data.receive()) is not None:
                    found[key.data] = reply
        return found


if __name__ == "__main__":
    from rounds import answer

    answer(main(json.loads(sys.argv[1])))
