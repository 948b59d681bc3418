"""Cost of one environment step: robosuite's own controllers against the compiled one; and of resets and images.

    python benchmarks/simulator_fast_path.py            about 6 minutes on 2 cores; keeps its results
    python benchmarks/simulator_fast_path.py --quick    under two minutes, tiny sizes; figures are no measurement

Environment processes as in a run, of which one works at a time, all on one core. What is compared alternates (A B
A B ...), with the same episodes and random actions on both sides; ratios are taken within each round. LIBERO is
measured where `ebrl env create libero` has been run, in that interpreter; images where this machine can draw.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence

import attrs
from report import Report, wide_console
from rich.console import Console
from rounds import interleaved
from simulator_fast_path_process import Measured, together
from simulator_fast_path_results import Comparison, add_to

from ebrl.errors import UsageError
from ebrl.interpreters.store import IsolatedEnvironment
from ebrl.resources.affinity import bind
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.environment import EnvironmentGone

TASKS = ("robosuite:Lift", "robosuite:Door", "robosuite:Stack", "robosuite:TwoArmLift")
CONTROLLED = tuple(f"{task}?controller={controller}" for task in TASKS for controller in ("OSC_POSE", "OSC_POSITION"))
LIBERO = ("libero:libero_object/0", "libero:libero_spatial/0", "libero:libero_goal/0", "libero:libero_10/0")
CONTROL = {"stock": "fast_control=false", "compiled": "fast_control=true"}
RESET = {"hard": "hard_reset=true", "soft": "hard_reset=false"}
DRAWING = {"stock": "fast_images=false", "fast": "fast_images=true"}
CAMERA = "cameras=agentview&image_size=(128,128)"

Measure = Callable[[Measured, int], dict[str, float]]
"""Milliseconds of a process by clock, in the round of that number."""


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much is measured, and of which simulators."""

    rounds: int
    steps: int
    """Of one round and side, as the next two."""
    resets: int
    images: int
    controlled: tuple[str, ...]
    reset: tuple[str, ...]
    drawn: tuple[str, ...]
    judged: bool = True
    """Whether goals apply."""


FULL = Extent(
    rounds=5,
    steps=100,
    resets=4,
    images=16,
    controlled=(*CONTROLLED, *LIBERO),
    reset=(*TASKS, LIBERO[0]),
    drawn=(TASKS[0], LIBERO[0]),
)
QUICK = Extent(
    rounds=2,
    steps=25,
    resets=2,
    images=4,
    controlled=(CONTROLLED[0], CONTROLLED[-1], LIBERO[0]),
    reset=TASKS[:1],
    drawn=TASKS[:1],
    judged=False,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, nothing is kept")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL

    console = wide_console()
    report = Report(name="simulator_fast_path")
    report.figures["settings"] = attrs.asdict(extent)
    began_s = time.monotonic()
    marker = IsolatedEnvironment("libero").marker()
    if marker is None:
        console.print("LIBERO is left out: this machine has no environment for it (ebrl env create libero).")
    else:
        report.figures["libero_packages"] = {"python": marker.python, **marker.packages}
    bench = Bench(rounds=extent.rounds, with_libero=marker is not None, console=console)
    try:
        results = {
            "steps": (
                f"One step, stock and compiled controller ({extent.steps} steps a round)",
                bench.compare(extent.controlled, CONTROL, lambda side, seed: side.steps(extent.steps, seed)),
            ),
            "resets": (
                f"One reset, hard and soft; LIBERO's with its steps at rest ({extent.resets} resets a round)",
                bench.compare(extent.reset, RESET, lambda side, seed: side.resets(extent.resets, seed)),
            ),
            "images": (
                f"One image of 128 x 128, as the simulator draws it and with fast_images ({extent.images} a round)",
                bench.compare(extent.drawn, DRAWING, lambda side, seed: side.images(extent.images, seed), shown=CAMERA),
            ),
        }
    except EnvironmentGone as gone:
        console.print(f"{gone}\n{gone.detail}\n{gone.hint}".rstrip(), style="red", markup=False)
        return 1
    add_to(report, results, judged=extent.judged)
    report.show(console)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if arguments.quick:
        console.print("Quick: tiny sizes and two short rounds; goals are judged by the full run only.")
    else:
        console.print(f"Kept in {report.save()}")
    return 0


@attrs.define(frozen=True, kw_only=True)
class Bench:
    rounds: int
    with_libero: bool
    console: Console

    def compare(
        self, simulators: Sequence[str], options: Mapping[str, str], measure: Measure, shown: str = ""
    ) -> list[Comparison]:
        """Each of `simulators` with one option of `options` and with the other, side by side.

        shown: options of the images that both sides draw. Where this machine cannot, the simulator is left out, with
        a line that says so; raises EnvironmentGone for all else.
        """
        found = []
        for simulator in simulators:
            if simulator.startswith("libero:") and not self.with_libero:
                continue
            try:
                sides = {name: _address(simulator, shown, option) for name, option in options.items()}
                found.append(self._comparison(simulator, sides, measure))
            except EnvironmentGone as gone:
                if not shown or gone.exit_code != UsageError.exit_code:
                    raise
                self.console.print(f"Images of {simulator} are left out: {gone}; {gone.hint}", markup=False)
                continue
            self.console.print(found[-1].line, markup=False)
        return found

    def _comparison(self, simulator: str, addresses: Mapping[str, str], measure: Measure) -> Comparison:
        with together(addresses) as sides:
            for side in sides.values():
                bind(side.process.pid, ResourcePool.discover().cores[-1:])
                measure(side, 0)  # first calls compile, and fill caches
            rounds = interleaved(list(sides), self.rounds, lambda name, number: measure(sides[name], number + 1))
            *_, last = sides.values()
            control = str(last.spec.extra["control"])
        return Comparison(simulator=simulator, rounds=rounds, control=control)


def _address(simulator: str, *options: str) -> str:
    query = "&".join(option for option in options if option)
    return f"{simulator}{'&' if '?' in simulator else '?'}{query}"


if __name__ == "__main__":
    raise SystemExit(main())
