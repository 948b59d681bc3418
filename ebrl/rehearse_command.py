"""The command `ebrl rehearse`: what schedules reach on a machine, before anybody rents it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebrl.errors import EbrlError, UsageError
from ebrl.graph.schedules import MECHANISMS, SCHEDULES, declared
from ebrl.options import Settings, Target, named_mechanisms

if TYPE_CHECKING:
    from ebrl.graph.model import Graph
    from ebrl.graph.schedules import Schedule
    from ebrl.planner.problem import Problem
    from ebrl.planner.profile import Profile
    from ebrl.rehearse.comparison import Outcome, Trial
    from ebrl.rehearse.trace import Trace
    from ebrl.rehearse.truth import TrueCosts
    from ebrl.resources.pool import ResourcePool

_PIPED_WIDTH = 120  # of the table, where another program reads


def mount(app: typer.Typer, reported: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Add the command to `app`; `reported` turns what it raises into a message and an exit code."""
    app.command("rehearse")(reported(rehearse))


def rehearse(
    target: Target,
    profile: Annotated[
        Path, typer.Option(metavar="FILE", help="Costs of the stages; those of another policy or machine will do.")
    ],
    settings: Settings = None,
    machine: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Rehearse on this machine instead of this one: 8xH100,56c,512GiB."),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="These numbers of GPUs in turn, with as many cores and as much memory for each."
        ),
    ] = None,
    schedule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(SCHEDULES), help="Only this one. Can be repeated; otherwise all that are possible."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="|".join(MECHANISMS), help="What the schedules are to do without. Can be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal figures.")] = 0,
    iterations: Annotated[
        int, typer.Option(min=1, metavar="N", help="Training iterations to rehearse once the pipeline is filled.")
    ] = 8,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep traces for ui.perfetto.dev, a picture and the figures here."),
    ] = None,
) -> None:
    """Rehearse a workflow in virtual time: what each schedule, at its best, reaches on a machine, and why not more."""
    from rich.console import Console

    from ebrl.graph.load import load_workflow
    from ebrl.observe.rehearsal_table import rehearsal_table
    from ebrl.planner.profile import read_profile
    from ebrl.rehearse.comparison import trials
    from ebrl.rehearse.truth import TrueCosts
    from ebrl.resources.machine_spec import machine_or_this

    schedules, counts = _schedules(schedule, without), _counts(gpus)
    graph, costs, pool = (
        load_workflow(target).with_settings(settings or []),
        read_profile(profile),
        machine_or_this(machine),
    )
    problems = _problems(graph, costs, pool, counts)
    rehearsals, left_out = trials(problems, schedules, named=bool(schedule))
    if out is not None:
        _make(out)
    for line in [*_doubts(costs, profile, graph, pool), *left_out]:
        print(f"note: {line}", file=sys.stderr)
    print(_head(next(iter(problems.values())), profile), file=sys.stderr)
    outcomes: list[Outcome] = []
    traces: list[Trace] = []
    for outcome, trace in _rehearsed(rehearsals, TrueCosts.of_profile(costs), iterations, seed):
        outcomes.append(outcome)
        if out is not None:  # they are large
            traces.append(trace)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    console.print(rehearsal_table(outcomes, costs.chunk))
    if out is not None:
        request = {"workflow": graph.name, "profile": profile, "machine": machine or pool.machine}
        request |= {"iterations": iterations, "seed": seed}
        try:
            print("\n".join(_keep(out, list(zip(outcomes, traces, strict=True)), request)))
        except OSError as error:
            raise EbrlError(f"{error.filename or out} cannot be written: {error.strerror}") from None


def _schedules(names: Sequence[str] | None, without: Sequence[str] | None) -> Mapping[str, Schedule]:
    """By title, in the order in which they were named."""
    left_out = named_mechanisms(without)
    end = f" without {', '.join(left_out)}" if left_out else ""
    return {name + end: declared(name, left_out) for name in names or SCHEDULES}


def _counts(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in numbers):
        raise UsageError(f"--gpus is {text!r}", hint="write numbers with commas between them: --gpus 1,2,4,8")
    return tuple(sorted({int(part) for part in numbers}))


def _problems(graph: Graph, profile: Profile, pool: ResourcePool, counts: Sequence[int]) -> dict[int, Problem]:
    """By number of GPUs. What schedules have in common: each then has its own barriers and batches."""
    from ebrl.planner.explain import profiled_problem
    from ebrl.planner.first_plan import first_plan
    from ebrl.rehearse.truth import TrueCosts
    from ebrl.resources.scaled import scaled

    if profile.iteration % profile.window:
        raise UsageError(
            f"an iteration of the profile has {profile.iteration} chunk-steps, which are no whole windows of "
            f"{profile.window}",
            hint="make it again: ebrl profile",
        )
    truth = TrueCosts.of_profile(profile)
    problems: dict[int, Problem] = {}
    for count in counts or (len(pool.gpus),):
        there = scaled(pool, count) if counts else pool
        _check_devices(profile, there)
        told = profiled_problem(graph, first_plan(graph, there), there, profile)
        problems[count] = truth.told(told)
    return problems


def _check_devices(profile: Profile, pool: ResourcePool) -> None:
    """UsageError where the profile knows costs of some stage, but on nothing that `pool` has."""
    from ebrl.planner.costs import CPU
    from ebrl.planner.problem import GENERATION, SIMULATION, TRAINING

    here = {gpu.name for gpu in pool.gpus}
    for stage in (SIMULATION, GENERATION, TRAINING):
        costs = profile.costs(stage)
        needs_device = costs.on(CPU) is None or (stage == SIMULATION and costs.devices())
        if needs_device and not here & set(costs.devices()):
            raise UsageError(
                f"the profile knows the {stage} on {', '.join(costs.devices())}, this machine has "
                f"{', '.join(sorted(str(name) for name in here)) or 'no GPU'}",
                hint="name another machine, for example --machine 8xH100,56c, or a profile of this one",
            )


def _doubts(profile: Profile, path: Path, graph: Graph, pool: ResourcePool) -> list[str]:
    from ebrl.planner.first_plan import first_plan
    from ebrl.planner.profile import doubts
    from ebrl.runtime.described import described

    found = list(doubts(profile, described(graph, first_plan(graph, pool), pool)))
    return [f"the costs of {path} may not hold: {'; '.join(found)}"] if found else []


def _head(problem: Problem, path: Path) -> str:
    return (
        f"{problem.environments} environments; iterations of {problem.iteration:,} chunk-steps in windows of "
        f"{problem.window}, as in {path}"
    )


def _rehearsed(
    rehearsals: Sequence[Trial], truth: TrueCosts, iterations: int, seed: int
) -> Iterator[tuple[Outcome, Trace]]:
    from rich.console import Console

    from ebrl.rehearse.comparison import rehearsed

    with Console(stderr=True).status("") as status:
        for number, trial in enumerate(rehearsals, start=1):
            status.update(f"rehearsing {trial.title} on {trial.gpus} GPUs: {number} of {len(rehearsals)}")
            yield rehearsed(trial, truth, iterations=iterations, seed=seed)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be made: {error.strerror}") from None


def _keep(folder: Path, found: Sequence[tuple[Outcome, Trace]], request: Mapping[str, Any]) -> list[str]:
    """Write figures, traces and pictures; says where."""
    import json

    from ebrl.observe.chrome_trace import chrome_trace
    from ebrl.observe.records import write_json, write_whole

    write_json(folder / "rehearsal.json", {**request, "outcomes": [outcome.figures() for outcome, _ in found]})
    for outcome, trace in found:
        name = f"{outcome.title.replace(', ', '-').replace(' ', '-')}-{outcome.gpus}gpus.trace.json"
        text = json.dumps(chrome_trace(trace, outcome.title), separators=(",", ":"))
        write_whole(folder / name, text.encode())
    return [f"figures: {folder / 'rehearsal.json'}", f"traces for ui.perfetto.dev: {folder}", *_draw(folder, found)]


def _draw(folder: Path, found: Sequence[tuple[Outcome, Trace]]) -> list[str]:
    from ebrl.observe.records import write_whole
    from ebrl.observe.rehearsal_table import summary_line

    try:
        from ebrl.observe.gantt import gantt
    except ImportError:
        return ["no picture: it needs matplotlib; pip install 'ebrl[plot]'"]
    lines = []
    for gpus in dict.fromkeys(outcome.gpus for outcome, _ in found):
        path = folder / f"gantt-{gpus}gpus.png"
        write_whole(path, gantt([(summary_line(outcome), trace) for outcome, trace in found if outcome.gpus == gpus]))
        lines.append(f"picture: {path}")
    return lines
