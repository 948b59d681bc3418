"""Whether a run that begins with a bad plan finds back to the best one, on this machine's cores.

    python benchmarks/replanning.py            about 25 minutes on 2 cores; keeps its results
    python benchmarks/replanning.py --quick    under two minutes; figures are no measurement

`reach_ppo` and `lift_ppo` begin with generation batches of 1, the simulation on one core and training with a thread
per core. The feedback planner may change that. Compared are, in interleaved rounds, the run after its first new plan,
the bad plan kept (``--no-replan``), and the best fixed plan, which is found by trying every plan of a grid before.
"""

from __future__ import annotations

import argparse

from planned_run import every, named, reached, wrong
from report import Goal, Report, Spread, ratios, wide_console
from training_task import TrainingTask

LIKE_BEST = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one task, short runs, nothing is kept")
    quick = parser.parse_args().quick
    report = Report(name="replanning")
    for name in ("reach",) if quick else ("reach", "lift"):
        _compare(report, name, rounds=1 if quick else 5, measure_s=3.0 if quick else 12.0, few=quick)
    report.show(wide_console())
    if not quick:
        print(f"results: {report.save()}")
    return 0


def _compare(report: Report, name: str, *, rounds: int, measure_s: float, few: bool) -> None:
    graph, console = TrainingTask.named(name).graph, wide_console()
    tried = []
    for plan in every(graph, few=few):
        tried.append((reached(graph, plan, measure_s=measure_s / 2).env_steps_per_s, plan))
        console.print(f"{name}: {named(plan)}: {tried[-1][0]:.0f} steps/s")
    best = max(tried, key=lambda entry: entry[0])[1]
    bad = wrong(graph)
    rates: dict[str, list[float]] = {"best fixed plan": [], "feedback planner": [], "bad plan kept": []}
    events = []
    for _ in range(rounds):
        rates["best fixed plan"].append(reached(graph, best, measure_s=measure_s).env_steps_per_s)
        replanned = reached(graph, bad, measure_s=measure_s, replan=True)
        rates["feedback planner"].append(replanned.env_steps_per_s)
        rates["bad plan kept"].append(reached(graph, bad, measure_s=measure_s).env_steps_per_s)
        events += [dict(event.data) | {"kind": event.kind} for event in replanned.events if event.kind in KINDS]
    share = ratios(rates["feedback planner"], rates["best fixed plan"])
    report.table(
        f"{name}: environment steps per second, training included; best fixed plan: {named(best)}",
        ("plan", "steps/s", "of the best"),
        [
            (kind, Spread.of(found).text(), ratios(found, rates["best fixed plan"]).text(".2f"))
            for kind, found in rates.items()
        ],
    )
    report.table(
        f"{name}: why",
        ("event", "step", "gap", "changes", "predicted", "achieved"),
        [
            (
                event["kind"],
                str(event["step"]),
                f"{event['measured']['gap']:.0%}",
                "; ".join(event["changes"]) or event["reason"] or "-",
                f"{event['predicted_gain']:+.0%}",
                "-" if event["achieved_gain"] is None else f"{event['achieved_gain']:+.0%}",
            )
            for event in events
        ],
    )
    tried_rates = {named(plan): rate for rate, plan in tried}
    report.figures[name] = {"rates": rates, "tried": tried_rates, "best": named(best), "events": events}
    report.goals.append(Goal(name=f"{name}: recovered over best fixed plan", value=share.median, goal=LIKE_BEST))


KINDS = ("replan", "outcome", "revert", "kept")


if __name__ == "__main__":
    raise SystemExit(main())
