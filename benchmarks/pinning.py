"""What binding environments to cores buys: throughput and chunk latency against the operating system's scheduling.

    python benchmarks/pinning.py            about 10 minutes on 2 cores; keeps its results
    python benchmarks/pinning.py --quick    under two minutes, tiny sizes; figures are no measurement

A rollout with a policy that answers at once records equal windows of every environment, two batches in
flight as at a staleness of 1, on all cores of this process: (a) all environments run at once and the system
schedules them, a whole chunk at a time; (b) the step dispatcher runs one per core, a step at a time; (c) the
same, each bound to the core that it was granted. Variants alternate (A B C A B C ...), each repetition in a
new process; the first batches are left out. Ratios are taken within each round.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import attrs
from pinning_results import COSTS, VARIANTS, Condition, add_to
from report import Report, wide_console
from rich.console import Console
from rounds import RepetitionFailed, in_fresh_process, interleaved

from ebrl.resources.pool import ResourcePool

TIMEOUT_S = 300.0
CHUNK = 4
"""Actions of one answer of the policy."""


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much is measured."""

    per_core: tuple[int, ...]
    """Environments per core."""
    repetitions: int
    window: int
    """Chunk-steps of one environment in one batch."""
    skip: int
    """Batches before the measurement."""
    measure_s: float
    """Least duration of one measurement; whole batches are counted, two at least."""


FULL = Extent(per_core=(1, 2, 4, 8), repetitions=3, window=6, skip=2, measure_s=2.0)
QUICK = Extent(per_core=(2,), repetitions=1, window=4, skip=1, measure_s=0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing is kept")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL

    console = wide_console()
    pool = ResourcePool.discover()
    if not pool.pinning:
        console.print("Processes cannot be bound to cores here: there is nothing to compare.", style="red")
        return 1
    report = Report(name="pinning")
    report.figures["settings"] = {"chunk": CHUNK, "cores": pool.cores, **attrs.asdict(extent)}
    began_s = time.monotonic()
    try:
        conditions = [
            Condition(cost=cost, per_core=per_core, rounds=measure(cost, per_core, pool.cores, extent, console))
            for cost in COSTS
            for per_core in extent.per_core
        ]
    except RepetitionFailed as failure:
        console.print(str(failure), style="red", markup=False)
        return 1
    add_to(report, conditions)
    report.show(console)
    for condition in conditions:
        console.print(condition.verdict)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if arguments.quick:
        console.print("Quick: tiny sizes and one short measurement each; its sentences judge nothing.")
    else:
        console.print(f"Kept in {report.save()}")
    return 0


def measure(
    cost: str, per_core: int, cores: tuple[int, ...], extent: Extent, console: Console
) -> dict[str, list[dict[str, Any]]]:
    """All repetitions of all variants under one condition, one after the other."""

    def once(variant: str, repetition: int) -> dict[str, Any]:
        result = in_fresh_process(
            Path(__file__).parent / "pinning_variant.py",
            {
                "simulator": COSTS[cost].simulator,
                "variant": variant,
                "num_envs": per_core * len(cores),
                "cores": cores,
                "chunk": CHUNK,
                "window": extent.window,
                "seed": repetition,
                "skip": extent.skip,
                "measure_s": extent.measure_s,
            },
            timeout_s=TIMEOUT_S,
        )
        name = f"{COSTS[cost].label}, {per_core} per core, round {repetition + 1}: {VARIANTS[variant]}"
        console.print(f"{name}: {result['env_steps_per_s']:.0f} environment steps/s")
        return result

    return interleaved(list(VARIANTS), extent.repetitions, once)


if __name__ == "__main__":
    raise SystemExit(main())
