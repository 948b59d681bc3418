"""The commands `ebrl env ...`: interpreters of their own for simulators."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ebrl.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from ebrl.interpreters.store import Marker
    from ebrl.runtime.order import EnvironmentOrder

_PIPED_WIDTH = 200  # one line per backend where another program reads

Command = Callable[..., None]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a simulator backend, such as robosuite.")]


def mount(app: typer.Typer, reported: Callable[[Command], Command]) -> None:
    """Add the group to `app`; `reported` turns what a command raises into a message and an exit code."""
    group = typer.Typer(
        name="env",
        help="Give simulators interpreters of their own: their packages exclude one another.",
        no_args_is_help=True,
    )
    for name, command in (("create", create), ("list", list_), ("remove", remove), ("check", check)):
        group.command(name)(reported(command))
    app.add_typer(group)


def create(name: Name) -> None:
    """Build the interpreter of a backend from the pins that ship with it. Runs use it from then on."""
    from rich.console import Console

    from ebrl.interpreters import build
    from ebrl.interpreters.store import IsolatedEnvironment

    console = Console(stderr=True)
    with _progress(console, name) as say:
        marker = build.create(name, say)
    print(f"{name}: Python {marker.python}, {_named(name, marker.packages)}, {marker.size_mib} MiB")
    print(f"in {IsolatedEnvironment(name).folder}; try it: ebrl env check {name}")


def list_() -> None:
    """Show which backends can have, and which have, an interpreter of their own."""
    from rich.console import Console
    from rich.table import Table

    from ebrl.backends.registry import simulator_names
    from ebrl.interpreters.store import IsolatedEnvironment, existing

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "state", "python", "packages", "MiB", "made"):
        table.add_column(heading, justify="right" if heading == "MiB" else "left")
    for name in sorted({*simulator_names(), *existing()}):
        marker = IsolatedEnvironment(name).marker()
        row = [name, _state(name, marker)]
        if marker is not None:
            packages = _named(name, marker.packages)
            row += [marker.python, packages, str(marker.size_mib), marker.created[:16].replace("T", " ")]
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)


def remove(name: Name) -> None:
    """Delete the interpreter of a backend."""
    from ebrl.backends.registry import simulator_names
    from ebrl.interpreters.store import IsolatedEnvironment, existing

    known = {*simulator_names(), *existing()}
    if name not in known:
        raise UsageError(f"no simulator backend is named {name!r}", hint=did_you_mean(name, known))
    environment = IsolatedEnvironment(name)
    with environment.locked(lambda text: print(text, file=sys.stderr)):
        there, size_mib = environment.folder.is_dir(), environment.remove()
    print(f"{name}: freed {size_mib} MiB" if there else f"{name}: there was none, nothing to free")


def check(
    simulator: Annotated[
        str,
        typer.Argument(
            metavar="NAME[:TARGET]",
            help="A backend, and what to try: 'robosuite:Lift?horizon=40'; or the factory of one: 'my_package:MySim'.",
        ),
    ],
) -> None:
    """Start one environment as a run would: reset, step, render, see whether it keeps the contract of simulators, and
    tell what is missing."""
    from ebrl.backends.registry import locate, parse_uri, simulator_names
    from ebrl.interpreters.choose import Interpreter, interpreter_of
    from ebrl.interpreters.pins import Pins
    from ebrl.interpreters.store import IsolatedEnvironment
    from ebrl.runtime.trial import order_of

    backend = simulator.partition(":")[0]
    sys.path.append(os.getcwd())
    if backend not in simulator_names() and ":" in simulator and find_spec(backend.partition(".")[0]) is not None:
        _, name, options = parse_uri(simulator)
        _judge(order_of(*locate(backend, name), options, Interpreter(), simulator))
        return
    interpreter, pins = interpreter_of(backend), Pins.of(backend)
    if ":" not in simulator:
        if pins is None or not pins.check:
            raise UsageError(f"what of {backend} is to be tried?", hint=f"ebrl env check {backend}:TARGET")
        simulator = f"{backend}:{pins.check}"
    _, target, options = parse_uri(simulator)
    marker = IsolatedEnvironment(backend).marker()
    own = f"{sys.executable} (Python {sys.version.split()[0]}, the one of ebrl)"
    _say("simulator", simulator)
    _say("interpreter", own if marker is None else f"{interpreter.python} (Python {marker.python})")
    packages = marker.packages if marker is not None else {d.metadata["Name"]: d.version for d in distributions()}
    _say("versions", _named(backend, packages))
    if interpreter.notice:
        print(f"note: {interpreter.notice}")
    _judge(order_of(*locate(backend, target), options, interpreter, simulator))


def _judge(order: EnvironmentOrder) -> None:
    """Say what one environment shows, and which rules of the contract it breaks; exit code 1 where it does."""
    from ebrl.runtime.conformance import outcomes
    from ebrl.runtime.trial import attempt

    attempt(order, _say)
    found = list(outcomes(order))
    broken = [outcome for outcome in found if outcome.state == "failed"]
    for outcome in found:
        if outcome.state != "passed":
            _say(outcome.state, str(outcome))
            if outcome.detail:
                print(outcome.detail)
    states = [outcome.state for outcome in found]
    _say(
        "contract",
        f"{states.count('passed')} of {len(found)} rules kept, {states.count('skipped')} not to be tried here",
    )
    if broken:
        raise typer.Exit(1)


def _say(what: str, how: str) -> None:
    print(f"{what:<36} {how}", flush=True)


def _state(name: str, marker: Marker | None) -> str:
    from ebrl.interpreters.pins import Pins
    from ebrl.interpreters.store import IsolatedEnvironment

    try:
        pins = Pins.of(name)
    except UsageError:
        return "backend is gone: ebrl env remove " + name
    if marker is not None:
        outdated = pins is not None and pins.digest != marker.pins
        return f"outdated, its pins changed: ebrl env create {name}" if outdated else "ready"
    if IsolatedEnvironment(name).fault():
        return f"broken: ebrl env create {name}"
    if IsolatedEnvironment(name).folder.is_dir():
        return f"half-built: ebrl env create {name}"
    return "none, runs in the interpreter of ebrl" + ("" if pins is None else f" or: ebrl env create {name}")


def _named(backend: str, packages: object) -> str:
    """Of `packages` those that matter: the simulator's own, numpy and the physics engine."""
    assert isinstance(packages, dict)
    wanted = ("numpy", "mujoco", "sapien", "torch", "bddl")
    squashed = {name: name.lower().replace("-", "").replace("_", "") for name in packages if name}
    own = [name for name in packages if name and backend.replace("_", "") in squashed[name] and "assets" not in name]
    others = [name for name in packages if name and squashed[name] in wanted]
    return ", ".join(f"{name} {packages[name]}" for name in dict.fromkeys([*own, *others])) or "nothing of note"


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Callable[[str, bool], None]]:
    """A line that moves on a terminal; elsewhere the steps only."""
    with console.status(name) as status:

        def say(text: str, passing: bool) -> None:
            if passing:
                status.update(f"{name}: {text[: max(20, console.width - len(name) - 8)]}")
            else:
                console.print(f"{name}: {text}", markup=False, highlight=False, soft_wrap=True)

        yield say
