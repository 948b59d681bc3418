"""The script that Python was started with, which every local worker imports before it does anything else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType

from ebrl.graph.source import place


def refuse_without_guard() -> None:
    """End the program, with exit code 2 and one line, where the script would start this run in every worker. Where it
    is no file at all, workers are kept from looking for one."""
    _forget_what_is_no_file()
    if (where := _unguarded()) is not None:
        message = 'every worker would start this run again; put it under `if __name__ == "__main__":`'
        print(f"error: {where}: {message}", file=sys.stderr)
        raise SystemExit(2)


def _forget_what_is_no_file() -> None:
    """A program from standard input (``python - < script``) calls itself ``<stdin>``, which no worker can import."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is not None and not Path(file).is_file():
        del main.__file__


def _unguarded() -> str | None:
    """file:line of the statement of the script that runs now, unless it asks for `__name__`."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if file is None or (spec is not None and spec.name.endswith(".__main__")):  # then workers import none
        return None
    frame: FrameType | None = sys._getframe()
    while frame is not None and not (frame.f_globals is vars(main) and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    if frame is None:
        return None
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    return None if _is_guarded(tree, frame.f_lineno) else place(file, frame.f_lineno)


def _is_guarded(tree: ast.AST, line: int) -> bool:
    return any(
        isinstance(part, ast.Name) and part.id == "__name__"
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and node.lineno <= line <= (node.end_lineno or node.lineno)
        for part in ast.walk(node.test)
    )
