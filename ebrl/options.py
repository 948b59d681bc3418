"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from ebrl.graph.schedules import mechanisms

Target = Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="Workflow file, and which workflow in it.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of the workflow. Can be repeated."),
]


def named_mechanisms(without: Iterable[str] | None) -> tuple[str, ...]:
    """The mechanisms that ``--without`` names, separated by commas or not; UsageError for those that do not exist."""
    return mechanisms(name.strip() for each in without or () for name in each.split(","))
