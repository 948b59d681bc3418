"""The command line. Commands stay short; what they need is imported when they run.

Exit codes: 0 done, 1 the run failed, 2 the request was wrong and nothing ran, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from json import JSONEncoder
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from ebrl import env_commands, rehearse_command
from ebrl.errors import EbrlError, Interrupted, UsageError, did_you_mean
from ebrl.graph.schedules import MECHANISMS, SCHEDULES, declared
from ebrl.observe.output import Output
from ebrl.options import Settings, Target, named_mechanisms

if TYPE_CHECKING:
    from ebrl.graph.model import Graph
    from ebrl.graph.plan import Plan
    from ebrl.observe.run_config import RunConfig
    from ebrl.planner.profile import Profile
    from ebrl.resources.pool import ResourcePool

app = typer.Typer(
    name="ebrl",
    help="Asynchronous embodied reinforcement learning: run, check and plan workflow files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PROFILED = ("simulation", "generation", "training")
Schedule = Annotated[
    str | None, typer.Option(metavar="|".join(SCHEDULES), help="What waits for what: ebrl has no barriers, sync all.")
]
Without = Annotated[
    list[str] | None,
    typer.Option(metavar="|".join(MECHANISMS), help="What the schedule is to do without. Can be repeated."),
]


def _folder(text: str) -> Path:
    if not text.strip():
        raise typer.BadParameter("the name is empty")
    return Path(text)


ProfileFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", parser=_folder, help="Costs of the stages, as `ebrl profile` measured them."),
]


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what a command raises into a message on stderr and an exit code."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except Interrupted as error:
            _say(error.message)
            raise typer.Exit(error.exit_code) from None
        except EbrlError as error:
            _say(error.render())
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:  # whoever raised it has said so
            raise typer.Exit(Interrupted.exit_code) from None
        except (typer.Exit, BrokenPipeError):
            raise
        except Exception:
            _say(traceback.format_exc() + f"This is a bug in ebrl {_version()}: please report it with the lines above.")
            raise typer.Exit(1) from None

    return guarded


def _say(text: str) -> None:
    errors = Output(sys.stderr)
    print(text, file=errors)
    errors.flush()


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ebrl {_version()}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that stand before the command."""


@app.command()
@reported
def run(
    target: Annotated[
        str | None, typer.Argument(metavar="FILE[:NAME]", help="Workflow file, and which workflow in it.")
    ] = None,
    settings: Settings = None,
    schedule: Schedule = None,
    without: Without = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="tcp://HOST:PORT", help="Use this Dask scheduler instead of a local one.")
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=_folder, help="Where to keep it; otherwise runs/<workflow>-<time>."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="All randomness comes from it; otherwise 0.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", parser=_folder, help="Continue this run from its newest checkpoint.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", parser=_folder, help="Begin with this plan, as `ebrl plan` wrote it.")
    ] = None,
    profile: ProfileFile = None,
    replan: Annotated[bool, typer.Option("--replan/--no-replan", help="Let the plan change under way.")] = True,
    record_video: Annotated[
        str | None, typer.Option(metavar="every=N", help="Film an episode in the evaluation of every N-th iteration.")
    ] = None,
) -> None:
    """Run a workflow, or continue a run."""
    from ebrl.observe.run_config import LARGEST_SEED, RunConfig

    left_out = _left_out(schedule, without)
    if scheduler is not None:
        _check_address(scheduler)
    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"--seed must be a whole number from 0 to {LARGEST_SEED}, got {seed}")
    if resume is not None:
        _refuse_with_resume(run_dir=run_dir, seed=seed)
        config = RunConfig.read(resume)
        target = target or _stored_target(config.file, config.workflow)
        graph = _graph(target, settings, stored=config)
        seed = config.seed
        if plan is None and schedule is None:
            schedule, left_out = config.schedule, left_out or config.without
    elif target is None:
        raise UsageError("no workflow file is given", hint="ebrl run FILE[:NAME], or ebrl run --resume RUN")
    else:
        graph = _graph(target, settings)
    if record_video is not None:
        graph = _recorded(graph, record_video)
    begins_with, costs = _plan(plan), _profile(profile)
    if begins_with is None and scheduler is None:
        from ebrl.planner.first_plan import first_plan
        from ebrl.resources.pool import ResourcePool

        pool = ResourcePool.discover()
        costs = _judged(costs, profile, graph, first_plan(graph, pool, schedule or "ebrl", left_out), pool)
    _launch(
        graph,
        run_dir=run_dir,
        schedule=schedule,
        without=left_out or None,
        scheduler=scheduler,
        seed=seed or 0,
        resume=resume,
        plan=begins_with,
        profile=costs,
        replan=replan,
    )


@app.command()
@reported
def check(target: Target, settings: Settings = None) -> None:
    """Report everything that is wrong with a workflow."""
    graph = _graph(target, settings)
    print(f"{graph.name}: no problem found in {len(graph.nodes)} stages and {len(graph.edges)} edges")


@app.command()
@reported
def plan(
    target: Target,
    settings: Settings = None,
    schedule: Schedule = None,
    without: Without = None,
    profile: ProfileFile = None,
    machine: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Plan for this machine instead: 8xH100,56c,512GiB.")
    ] = None,
    diff: Annotated[
        Path | None, typer.Option(metavar="PLAN", parser=_folder, help="Say how it differs from this plan.json.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as a file for `ebrl run --plan`.")] = False,
) -> None:
    """Show stages, quotas, batch sizes and loops as they would run, and what a profile says of them."""
    left_out = _left_out(schedule, without)
    from rich.console import Console

    from ebrl.graph.plan_file import differences
    from ebrl.observe.plan_table import explanation_lines, plan_table
    from ebrl.observe.records import plain
    from ebrl.planner.explain import explained, planned, profiled_problem
    from ebrl.planner.first_plan import first_plan
    from ebrl.resources.machine_spec import machine_or_this

    graph, pool, before = _graph(target, settings), machine_or_this(machine), _plan(diff)
    chosen, found = first_plan(graph, pool, schedule or "ebrl", left_out), _profile(profile)
    if found is not None or machine is None:
        found = _judged(found, profile, graph, chosen, pool)
    lines: list[str] = []
    if found is not None:
        problem = profiled_problem(graph, chosen, pool, found)
        chosen, answer = planned(graph, chosen, pool, problem)
        lines = list(explanation_lines(explained(problem, answer, found.chunk)))
    if json:
        print(JSONEncoder(indent=1).encode(plain(chosen)))
    elif before is not None:
        print("\n".join(differences(before, chosen)) or "no difference")
    else:
        Console().print(plan_table(chosen))
        for line in lines:
            Console().print(line, markup=False, highlight=False)


@app.command()
@reported
def profile(
    target: Target,
    settings: Settings = None,
    stage: Annotated[
        list[str] | None, typer.Option(metavar="|".join(PROFILED), help="Only this one. Can be repeated.")
    ] = None,
    budget: Annotated[float, typer.Option(metavar="SECONDS", min=1.0, help="Time for all measurements.")] = 120.0,
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", parser=_folder, help="Where to keep it; otherwise profiles.")
    ] = None,
) -> None:
    """Measure what the stages of a workflow cost on this machine, each alone and all together."""
    from rich.console import Console

    from ebrl.observe.profile_progress import profile_progress
    from ebrl.observe.profile_table import profile_table
    from ebrl.observe.records import write_json
    from ebrl.runtime.profiling import profile as measure

    for name in stage or ():
        if name not in PROFILED:
            raise UsageError(f"there is no stage kind {name!r}", hint=did_you_mean(name, PROFILED))
    graph, console = _graph(target, settings), Console()
    with profile_progress(console, budget) as display:
        found = measure(
            graph,
            stages=tuple(stage or PROFILED),
            budget_s=budget,
            on_point=display.point,
            on_phase=display.phase,
            on_time=display.time,
        )
    path = (to or Path("profiles")) / found.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    if stage:
        found = _with_other_stages(found, path)
    write_json(path, found)
    console.print(profile_table(found))
    print(f"profile: {path}")
    print(_plot(found, path.with_suffix(".png")))


@app.command()
@reported
def graph(
    target: Target,
    settings: Settings = None,
    format: Annotated[str, typer.Option(metavar="text|mermaid|dot", help="How to write it.")] = "text",
) -> None:
    """Draw a workflow. Needs no Graphviz."""
    from ebrl.graph.draw import FORMATS

    if format not in FORMATS:
        raise UsageError(f"there is no graph format {format!r}", hint=did_you_mean(format, FORMATS))
    print(FORMATS[format](_graph(target, settings)))


@app.command()
@reported
def worker(
    address: Annotated[str, typer.Argument(metavar="tcp://HOST:PORT", help="Address of the Dask scheduler.")],
) -> None:
    """Let this machine take part in a cluster, until Ctrl-C."""
    _check_address(address)
    from ebrl.runtime.cluster import join

    join(address)


@app.command()
@reported
def doctor() -> None:
    """Show what this machine offers, how its devices are shared, and what to fix."""
    from rich.console import Console

    from ebrl.examination import examine
    from ebrl.observe.doctor_table import doctor_table

    Console(highlight=False, emoji=False).print(doctor_table(examine()))


env_commands.mount(app, reported)
rehearse_command.mount(app, reported)


def main() -> None:
    """Do what the command line says."""
    app()


def _graph(target: str, settings: list[str] | None, stored: RunConfig | None = None) -> Graph:
    """The checked graph of a workflow file; `settings` override the parameters of the `stored` earlier run."""
    from ebrl.graph.load import load_workflow

    workflow = load_workflow(target)
    if stored is None:
        return workflow.with_settings(settings or [])

    from ebrl.graph.parameters import settings_from_text
    from ebrl.observe.run_config import restored_parameters

    if workflow.__name__ != stored.workflow:
        raise UsageError(
            f"that run is of workflow {stored.workflow!r}, not of {workflow.__name__!r}",
            place=workflow.place,
            hint=f"name it: ebrl run FILE:{stored.workflow} --resume RUN, or start a new run",
        )
    changed = settings_from_text(workflow.function, settings or [])
    return workflow(**{**restored_parameters(workflow.function, stored.parameters), **changed})


def _recorded(graph: Graph, wish: str) -> Graph:
    from ebrl.graph.recorded import recorded

    name, _, count = wish.partition("=")
    if name != "every" or not count.isdecimal() or int(count) < 1:
        raise UsageError(f"--record-video is {wish!r}", hint="write every=N, for example --record-video every=50")
    return recorded(graph, int(count))


def _plan(path: Path | None) -> Plan | None:
    if path is None:
        return None
    from ebrl.graph.plan_file import read_plan

    return read_plan(path)


def _profile(path: Path | None) -> Profile | None:
    if path is None:
        return None
    from ebrl.planner.profile import read_profile

    return read_profile(path)


def _with_other_stages(found: Profile, path: Path) -> Profile:
    """`found`, and what an earlier profile at `path` says of the other stages."""
    from ebrl.planner.profile import merged, read_profile

    try:
        return merged(read_profile(path), found)
    except UsageError:  # none, or one of another schema
        return found


def _plot(profile: Profile, path: Path) -> str:
    try:
        from ebrl.observe.profile_plot import draw
    except ImportError:
        return "no plot: it needs matplotlib; pip install 'ebrl[plot]'"
    draw(profile, path)
    return f"plot: {path}"


def _judged(named: Profile | None, path: Path | None, graph: Graph, plan: Plan, pool: ResourcePool) -> Profile | None:
    """The profile that was named, or else the one that lies ready; says what is to be said of it."""
    from ebrl.runtime.known_profile import known_profile, why_not

    if named is None:
        found, line = known_profile(graph, plan, pool)
    else:
        why = why_not(named, graph, plan, pool)
        found, line = named, f"warning: the profile {path} may not hold: {why}" if why else ""
    if line:
        _say(line)
    return found


def _launch(graph: Graph, **options: Any) -> None:
    from rich.console import Console

    import ebrl
    from ebrl.observe.progress import progress

    launch = ebrl.launch  # its imports take a moment, in which the display must not own the terminal
    output = Output(sys.stdout)
    console = Console(file=cast("IO[str]", output), emoji=False)
    with progress(console) as display, launch(graph, observers=[display], **options) as running:
        for _ in running:
            # As with other tools a closed pipe ends the work, and like a closed terminal it ends it in order.
            if output.closed:
                break
    summary = running.summary if output.closed else None
    if summary is not None and summary["status"] == "interrupted":
        where = f"; ebrl run --resume {running.run_dir} continues" if summary["checkpoint"] else ""
        raise Interrupted(f"stopped after {summary['iterations']} iteration(s): nobody reads the output{where}")


def _left_out(schedule: str | None, without: list[str] | None) -> tuple[str, ...]:
    """The mechanisms that `without` names; UsageError for those that do not exist, and for such a schedule."""
    names = named_mechanisms(without)
    declared(schedule or "ebrl", names)
    return names


def _check_address(address: str) -> None:
    protocol, _, place = address.partition("://")
    if not (protocol and place.rpartition(":")[2].isdigit()):
        raise UsageError(f"{address!r} is no address of a Dask scheduler", hint="write tcp://HOST:PORT")


def _refuse_with_resume(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} cannot be combined with --resume",
                hint="a resumed run keeps its directory and its seed",
            )


def _stored_target(file: str, workflow: str) -> str:
    if not file:
        raise UsageError("that run was not started from a workflow file", hint="name one: ebrl run FILE --resume RUN")
    if not Path(file).is_file():
        raise UsageError(
            f"the workflow file of that run is gone: {file}", hint="name its new place: ebrl run FILE --resume RUN"
        )
    return f"{file}:{workflow}"


def _version() -> str:
    from importlib.metadata import version

    return version("ebrl")
