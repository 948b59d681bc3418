"""Whether the feedback planner finds the best allocation again after costs have drifted, in virtual time.

    python benchmarks/replanning_emulated.py            about 10 minutes on 2 cores; keeps its results
    python benchmarks/replanning_emulated.py --quick    under two minutes; figures are no measurement

A rehearsal (`ebrl.rehearse`) of 8 devices and 64 cores with 128 environments and 512 chunk-steps per iteration. All
decisions are those of a run; durations are drawn around emulated costs (`replanning_costs.py`), which are nobody's
measurements. In the middle of the run episodes become 31 % shorter, so that resets cost every chunk-step more, and
training takes 1.6 times as long. Compared are, after the drift: the plan of before, the feedback planner, and the best
fixed plan: the best in rehearsal of the allocator's answer to the true new costs and all that is one step away
from it. Beside this, noise without a drift, and a start with a wrong profile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import attrs
from replanning_costs import DEARER, EPISODE, NOISE, SHORTER, after, before, machine, neighbours
from report import Goal, Report, Spread, ratios, wide_console
from rich.console import Console

from ebrl.observe.rehearsal_table import allocation_text
from ebrl.planner.allocate import allocate
from ebrl.planner.feedback import Decision, FeedbackPlanner
from ebrl.planner.problem import Allocation, Problem
from ebrl.rehearse.rehearsal import Rehearsal, Step, throughput
from ebrl.rehearse.truth import TrueCosts

CHANGE_S = 30.0
"""What the devices stand still for when their shares change."""
LIKE_BEST = 0.97
WRONG = {"training believed 2x cheaper": ("training", 0.5), "generation believed 2x cheaper": ("generation", 0.5),
         "simulation believed 2x cheaper": ("simulation", 0.5)}  # fmt: skip


@attrs.define(frozen=True, kw_only=True)
class Extent:
    """How much is rehearsed."""

    seeds: int
    drift_at: int
    """Training step."""
    replanned_by: int
    """Step from which throughput counts."""
    steps: int
    tried_steps: int
    """Of every fixed plan that might be the best one."""
    quiet_steps: int
    """With noise alone."""


FULL = Extent(seeds=5, drift_at=300, replanned_by=500, steps=1000, tried_steps=300, quiet_steps=2000)
QUICK = Extent(seeds=1, drift_at=60, replanned_by=200, steps=320, tried_steps=60, quiet_steps=400)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short runs, nothing is kept")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL

    console, report, began_s = wide_console(), Report(name="replanning_emulated"), time.monotonic()
    report.figures["settings"] = {
        **attrs.asdict(extent),
        "episode": EPISODE,
        "episode_after": EPISODE * SHORTER,
        "training_after": DEARER,
        "change_s": CHANGE_S,
        **NOISE,
    }
    judged = not arguments.quick
    drift(report, console, extent, judged=judged)
    noise(report, console, extent, judged=judged)
    wrong(report, console, extent)
    report.show(console)
    console.print(f"Took {time.monotonic() - began_s:.0f} s.")
    if judged:
        console.print(f"Kept in {report.save()}")
    else:
        console.print("Quick: one seed and short runs; goals are judged by the full run only.")
    return 0


def drift(report: Report, console: Console, extent: Extent, *, judged: bool) -> None:
    """The plan of before, the planner and the best fixed plan, after the drift."""
    problem, costs = machine(), before()
    first, new = allocate(problem).allocation, after(costs)
    asked = allocate(new.told(problem)).allocation
    best = best_fixed(problem, new, asked, extent)
    rates: dict[str, list[float]] = {"frozen plan": [], "feedback planner": [], "best fixed plan": []}
    last, decisions = first, list[Decision]()
    for seed in range(extent.seeds):
        for name, start, replans in (
            ("frozen plan", first, False),
            ("feedback planner", first, True),
            ("best fixed plan", best, False),
        ):
            planner = feedback(problem, start, extent.steps) if replans else None
            steps = rehearse(problem, start, costs, extent.steps, seed, {extent.drift_at: new}, planner)
            rates[name].append(throughput(steps[extent.replanned_by :]))
            if planner is not None:
                last = planner.allocation
                decisions = [decision for step in steps for decision in step.decisions]
                tell(console, f"drift, seed {seed}", decisions)
    against = {name: ratios(values, rates["best fixed plan"]) for name, values in rates.items()}
    shown = {"frozen plan": first, "feedback planner": last, "best fixed plan": best}
    report.table(
        f"After the drift, from step {extent.replanned_by} on",
        ["plan", "chunk-steps/s", "of the best fixed", "allocation (last seed)"],
        [
            [name, Spread.of(rates[name]).text(".1f"), against[name].text(".3f"), allocation_text(shown[name])]
            for name in rates
        ],
    )
    report.figures["drift"] = {name: Spread.of(values) for name, values in rates.items()}
    report.figures["drift, of the best fixed plan"] = against
    report.figures["allocations"] = {
        **{name: allocation_text(plan) for name, plan in shown.items()},
        "allocator": allocation_text(asked),
    }
    report.figures["decisions of the last seed"] = [plain(decision) for decision in decisions]
    if judged:
        name = "throughput after replanning over that of the best fixed plan"
        report.goals.append(Goal(name=name, value=against["feedback planner"].median, goal=LIKE_BEST))


def best_fixed(problem: Problem, costs: TrueCosts, asked: Allocation, extent: Extent) -> Allocation:
    """The best in rehearsal of `asked` and its neighbours, and theirs, until none is better."""
    known: dict[str, float] = {}

    def rate(allocation: Allocation) -> float:
        if (key := allocation_text(allocation)) not in known:
            known[key] = throughput(rehearse(problem, allocation, costs, extent.tried_steps, seed=99)[20:])
        return known[key]

    while True:
        found = max([asked, *neighbours(problem, asked)], key=rate)
        if rate(found) <= rate(asked):
            return asked
        asked = found


def noise(report: Report, console: Console, extent: Extent, *, judged: bool) -> None:
    """Costs that vary and stay: nothing should happen, and certainly nothing again and again."""
    problem, costs = machine(), before()
    first = allocate(problem).allocation
    changes, gains = list[int](), list[float]()
    for seed in range(extent.seeds):
        planner = feedback(problem, first, extent.quiet_steps)
        replanned = rehearse(problem, first, costs, extent.quiet_steps, seed, None, planner)
        frozen = rehearse(problem, first, costs, extent.quiet_steps, seed)
        decisions = [decision for step in replanned for decision in step.decisions]
        tell(console, f"noise, seed {seed}", decisions)
        changes.append(sum(decision.kind in ("replan", "revert") for decision in decisions))
        gains.append(throughput(replanned) / throughput(frozen))
    report.table(
        f"{extent.quiet_steps} steps of noise",
        ["", "value"],
        [
            ["changes of the allocation", Spread.of(changes).text(".0f")],
            ["throughput over that of the frozen plan", Spread.of(gains).text(".3f")],
        ],
    )
    report.figures["noise, changes"] = Spread.of(changes)
    report.figures["noise, of the frozen plan"] = Spread.of(gains)
    if judged:
        report.goals += [
            Goal(name="changes under noise alone, most of any seed", value=max(changes), goal=2, at_least=False),
            Goal(name="throughput under noise over that of the frozen plan", value=Spread.of(gains).median, goal=0.99),
        ]


def wrong(report: Report, console: Console, extent: Extent) -> None:
    """Tables that are wrong from the start."""
    problem, costs = machine(), before()
    best = best_fixed(problem, costs, allocate(problem).allocation, extent)
    rows = []
    for name, (stage, ratio) in WRONG.items():
        believed = attrs.evolve(problem, **{stage: getattr(problem, stage).corrected(ratio)})
        first = allocate(believed).allocation
        shares: dict[str, list[float]] = {"kept": [], "replanned": []}
        for seed in range(extent.seeds):
            planner = feedback(believed, first, extent.steps)
            since = extent.replanned_by
            there = throughput(rehearse(problem, best, costs, extent.steps, seed)[since:])
            replanned = rehearse(problem, first, costs, extent.steps, seed, None, planner)
            tell(console, f"{name}, seed {seed}", [decision for step in replanned for decision in step.decisions])
            shares["kept"].append(throughput(rehearse(problem, first, costs, extent.steps, seed)[since:]) / there)
            shares["replanned"].append(throughput(replanned[since:]) / there)
        spreads = {plan: Spread.of(values) for plan, values in shares.items()}
        report.figures[name] = spreads
        rows.append([name, *(spread.text(".3f") for spread in spreads.values())])
    report.table(
        f"A wrong profile, from step {extent.replanned_by} on, of the best fixed plan",
        ["", "kept", "feedback planner"],
        rows,
    )


def rehearse(
    problem: Problem,
    allocation: Allocation,
    costs: TrueCosts,
    steps: int,
    seed: int,
    drift: dict[int, TrueCosts] | None = None,
    planner: FeedbackPlanner | None = None,
) -> list[Step]:
    run = Rehearsal(problem, allocation, costs, drift=drift, planner=planner, change_s=CHANGE_S, seed=seed)
    return run.run(steps)


def feedback(problem: Problem, allocation: Allocation, steps: int) -> FeedbackPlanner:
    return FeedbackPlanner(problem=problem, allocation=allocation, steps_left=steps, change_s=CHANGE_S)


def tell(console: Console, run: str, decisions: Sequence[Decision]) -> None:
    for decision in decisions:
        gains = f"predicted {decision.predicted_gain:+.1%}"
        if decision.achieved_gain is not None:
            gains += f", achieved {decision.achieved_gain:+.1%}"
        to = allocation_text(decision.new) if decision.kind in ("replan", "revert") else decision.reason
        console.print(f"{run}, step {decision.step}: {decision.kind} ({gains}) {to}", markup=False)
    if not decisions:
        console.print(f"{run}: no decision")


def plain(decision: Decision) -> dict[str, object]:
    numbers = attrs.asdict(decision, filter=lambda field, _: field.name not in ("old", "new", "measured"))
    return {**numbers, "new": allocation_text(decision.new), "gap": decision.measured.gap}


if __name__ == "__main__":
    raise SystemExit(main())
