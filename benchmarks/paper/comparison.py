"""The paper's evaluation by rehearsal, beside what the paper reports.

    python benchmarks/paper/comparison.py            about 40 minutes on 2 cores; keeps its results
    python benchmarks/paper/comparison.py --quick    under two minutes: one configuration, short iterations; not kept

Costs are those of ``profiles/paper`` (its README says what is published, derived and assumed). Every schedule has the
best allocation that it can have. Goals: the paper's speed-ups, or the least of its range over the strongest baseline
where no other is known, and 0.95 of the roofline. What was emulated (`emulation.py`) is taken from its last results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from experiments import Experiment, Extent, outcomes
from latency import CONFIGURATIONS, ENVIRONMENTS_PER_CORE, latencies
from published import ABLATIONS, REBINDING, SCALING, TAIL
from reallocation import COLUMNS, reallocation
from report import RESULTS, Goal, Report, wide_console
from speedups import BASELINES, Comparison, comparison, every, experiments, sentence

from ebrl.graph.schedules import MECHANISMS
from ebrl.rehearse.comparison import Outcome

FULL = Extent(chunk_steps=20_000, horizons=None)
QUICK = Extent(chunk_steps=4_000, horizons=1)
ROOFLINE = 0.95
SCALED = ("libero_gr00t", "robocasa_openpi")
EMULATED = ("robocasa_openpi", "grpo")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one configuration, nothing is kept")
    quick = parser.parse_args().quick
    extent, console, report = QUICK if quick else FULL, wide_console(), Report(name="paper")
    pairs = [("robocasa_openpi", "grpo")] if quick else every()
    scaled = () if quick else SCALED
    asked = [one for pair in pairs for one in experiments(*pair)]
    asked += [Experiment(name=name, algorithm="grpo", gpus=int(gpus)) for name in scaled for gpus in SCALING.values]
    found = outcomes(asked, extent, console)
    comparisons = [comparison(*pair, found) for pair in pairs]
    speedups(report, comparisons)
    rooflines(report, comparisons)
    ablations(report, comparisons)
    scaling(report, scaled, found)
    chunks(report, CONFIGURATIONS[:1] if quick else CONFIGURATIONS)
    trace = reallocation(iterations=60 if quick else 300)
    report.table(f"Costs that drift after iteration {trace.drift_at}", COLUMNS, trace.rows)
    report.figures["reallocation"] = trace.plain()
    report.figures["sentences"] = [sentence(each) for each in comparisons]
    report.show(console)
    for each in report.figures["sentences"]:
        console.print(f"\n{each}")
    if not quick:
        console.print(f"results: {report.save()}")
    return 0


def speedups(report: Report, comparisons: list[Comparison]) -> None:
    emulated = _emulated()
    names, rows = (*BASELINES, "sync"), []
    for each in comparisons:
        known = {name: each.speedup(name) for name in names if name in each.others}
        paper = {name: value for name, value in each.wanted.items() if len(each.wanted) > 1}
        there = emulated if (each.name, each.algorithm) == EMULATED else {}
        title = f"{each.name}, {each.algorithm.upper()}"
        rows.append([title, "rehearsed", *(f"{known[name]:.2f}" if name in known else "-" for name in names)])
        for kind, values in (("paper", paper), ("emulated", there)):
            if values:
                rows.append(["", kind, *(f"{values[name]:.2f}" if name in values else "-" for name in names)])
        for name, value in each.wanted.items():
            goal = f"{title}: speed-up over {name}{'' if paper else ', the strongest baseline'}"
            report.goals.append(Goal(name=goal, value=known[name], goal=value))
        report.figures.setdefault("speedups", []).append(
            {"name": each.name, "algorithm": each.algorithm, "rehearsed": known, "paper": paper, "emulated": there}
        )
    report.table("Speed-up of ebrl over", ["configuration", "", *names], rows)


def rooflines(report: Report, comparisons: list[Comparison]) -> None:
    rows = []
    for each in comparisons:
        title, ebrl = f"{each.name}, {each.algorithm.upper()}", each.ebrl
        others = [f"{other.of_roofline:.2f}" for other in each.others.values()]
        rows.append(
            [
                title,
                f"{ebrl.rate:.2f}",
                ebrl.roofline.binding,
                f"{ebrl.of_roofline:.3f}",
                " / ".join(others),
                f"{ebrl.mean_staleness:.2f}",
            ]
        )
        report.goals.append(Goal(name=f"{title}: share of the roofline", value=ebrl.of_roofline, goal=ROOFLINE))
        report.figures.setdefault("rooflines", []).append(
            {
                "name": title,
                "rate": ebrl.rate,
                "ceiling": ebrl.roofline.rate,
                "binding": ebrl.roofline.binding,
                "usage": ebrl.usage,
            }
        )
    columns = ["configuration", "chunk-steps/s", "holds it down", "of the roofline", "the others'", "staleness"]
    report.table("Roofline", columns, rows)


def ablations(report: Report, comparisons: list[Comparison]) -> None:
    rows = [["paper", *(f"{ABLATIONS.values[name]:.2f}" if name in ABLATIONS.values else "-" for name in MECHANISMS)]]
    for each in comparisons:
        left = {name: each.remains(name) for name in MECHANISMS if name in each.without}
        values = (f"{left[name]:.2f}" if name in left else "-" for name in MECHANISMS)
        rows.append([f"{each.name}, {each.algorithm.upper()}", *values])
        report.figures.setdefault("ablations", []).append({"name": rows[-1][0], **left})
    report.table("Throughput that is left without", ["configuration", *MECHANISMS], rows)


def scaling(report: Report, names: tuple[str, ...], found: Mapping[Experiment, Outcome]) -> None:
    counts = list(SCALING.values)
    if not names:
        return
    rows = [["paper", *(f"{value / SCALING.values['1']:.2f}" for value in SCALING.values.values())]]
    for name in names:
        rates = [found[Experiment(name=name, algorithm="grpo", gpus=int(gpus))].rate for gpus in counts]
        rows.append([name, *(f"{rate / rates[0]:.2f}" for rate in rates)])
        report.figures.setdefault("scaling", {})[name] = dict(zip(counts, rates, strict=True))
        report.goals.append(
            Goal(
                name=f"{name}: 16 GPUs over 1",
                value=rates[-1] / rates[0],
                goal=SCALING.values["16"] / SCALING.values["1"],
            )
        )
    report.table("Throughput by GPUs, over that of one", ["", *counts], rows)


def chunks(report: Report, names: tuple[str, ...]) -> None:
    """The paper reports one figure for all."""
    rows = [["paper", "-", *(f"{value:.2f}" for value in REBINDING.values.values()), f"{TAIL.values['P99/P50']:.2f}"]]
    for name in names:
        for per_core in (None, *ENVIRONMENTS_PER_CORE):
            told = latencies(name, per_core)
            rows.append([name, f"{told.per_core:.1f}", *(f"{value:.2f}" for value in told.ratios), f"{told.tail:.2f}"])
            report.figures.setdefault("chunk latency", []).append(told.plain())
    columns = ["configuration", "environments per core", "mean", "P50", "P99", "P99/P50 with it"]
    report.table("Chunk latency without rebinding over that with it", columns, rows)


def _emulated() -> dict[str, float]:
    """Schedule -> speed-up of ebrl over it, as `emulation.py` kept it."""
    path = RESULTS / "emulation.json"
    if not path.exists():
        return {}
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["figures"]["rows"]
    rates = {row["schedule"]: row["emulated"] for row in rows}
    return {name: rates["ebrl"] / rate for name, rate in rates.items() if name != "ebrl"}


if __name__ == "__main__":
    raise SystemExit(main())
