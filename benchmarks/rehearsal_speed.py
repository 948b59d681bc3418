"""How much faster than real time rehearsals are, for 256 environments on 56 cores and 8 devices.

    python benchmarks/rehearsal_speed.py            about five minutes; keeps its results
    python benchmarks/rehearsal_speed.py --quick    under two minutes, not kept

The costs are those of ``profiles/paper``. At chunk resolution an environment keeps its core for a whole chunk; at step
resolution cores may change hands after every control step. How many of these a second of real time has decides.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "paper"))
from configurations import CONFIGURATIONS
from problems import case
from report import Goal, Report, Spread, wide_console

from ebrl.planner.allocate import allocate
from ebrl.rehearse.rehearsal import Rehearsal

ENVIRONMENTS = 256
CHUNK_RESOLUTION, STEP_RESOLUTION = 1000.0, 100.0
"""Goals: times real time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round, nothing is kept")
    quick = parser.parse_args().quick
    report, rounds = Report(name="rehearsal_speed"), 1 if quick else 3
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for name in CONFIGURATIONS:
            for resolution in ("chunk", "step"):
                found.setdefault((name, resolution), []).append(speed(name, by_step=resolution == "step"))
    rows = []
    for name in CONFIGURATIONS:
        chunk, step = Spread.of(found[name, "chunk"]), Spread.of(found[name, "step"])
        rows.append((name, chunk.text(), step.text()))
        report.figures[name] = {"chunk": chunk, "step": step}
    report.table(
        "times real time, 256 environments on 56 cores", ("costs", "chunk resolution", "step resolution"), rows
    )
    for resolution, goal in (("chunk", CHUNK_RESOLUTION), ("step", STEP_RESOLUTION)):
        middle = statistics.median(report.figures[name][resolution].median for name in CONFIGURATIONS)
        report.goals.append(Goal(name=f"{resolution} resolution, the median of all", value=middle, goal=goal))
    report.show(wide_console())
    if not quick:
        print(f"results: {report.save()}")
    return 0


def speed(name: str, *, by_step: bool) -> float:
    """Seconds of virtual time per second of CPU time."""
    found = case(name, "grpo", horizons=1, environments=ENVIRONMENTS)
    steps = found.profile.chunk if by_step else 1
    rehearsal = Rehearsal(found.problem, allocate(found.problem).allocation, found.truth, steps=steps)
    rehearsal.run(1)
    began_s, since_s = time.process_time(), rehearsal.now_s
    rehearsal.run(2)
    return (rehearsal.now_s - since_s) / (time.process_time() - began_s)


if __name__ == "__main__":
    raise SystemExit(main())
