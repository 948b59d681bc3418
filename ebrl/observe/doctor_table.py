"""What the doctor says, for people: facts in two columns, then what to fix."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebrl.doctor import Machine, lines, remedies


def doctor_table(machine: Machine) -> RenderableType:
    """Fits any width: the right column wraps."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines(machine):
        table.add_row(line.topic, Text(line.text, style="yellow" if line.concern else ""))
    found = list(remedies(machine))
    below: list[RenderableType] = [Text(), Text("what to fix" if found else "nothing to fix", style="bold")]
    fixes = Table(box=None, show_header=False, pad_edge=False)
    fixes.add_column(justify="right")
    fixes.add_column(overflow="fold")
    for number, remedy in enumerate(found, 1):
        fixes.add_row(f"{number}.", Text(remedy.problem))
        fixes.add_row("", Text(f"$ {remedy.way}" if remedy.command else remedy.way, style="cyan"))
    return Group(table, *below, *([fixes] if found else []))
