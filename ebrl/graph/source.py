"""Where things stand in the user's files: places for messages, parsed functions, tracebacks of user code."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

OWN = str(Path(__file__).resolve().parents[1]) + os.sep
"""Where the engine's code lies."""

_USER_SIDE = tuple(os.path.join(OWN, name) + os.sep for name in ("backends", "stages", "workflows"))


def place(file: str, line: int | None) -> str:
    """``file:line``, the file relative to the current folder where it lies below it."""
    folder = os.getcwd() + os.sep
    return f"{file.removeprefix(folder)}:{line or 1}"


def caller_place(depth: int = 1) -> str:
    """file:line of the code that called the function that calls this one; `depth` adds frames."""
    frame: FrameType = sys._getframe(depth + 1)
    return place(frame.f_code.co_filename, frame.f_lineno)


def function_place(function: Callable[..., Any]) -> str:
    """file:line of ``def``, not of the first decorator."""
    code = function.__code__
    first = code.co_firstlineno
    for line in range(first, first + 50):
        if linecache.getline(code.co_filename, line).lstrip().startswith(("def ", "async def ")):
            return place(code.co_filename, line)
    return place(code.co_filename, first)


def parse(function: Callable[..., Any]) -> ast.AST | None:
    """Syntax tree with the file's own line numbers; None where no source is at hand."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    return ast.increment_lineno(tree, max(first, 1) - 1)


def user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of `error` outside this engine and Python's import machinery, outermost first."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user(frame.filename)]


def user_traceback(error: BaseException, *, else_all: bool = False) -> str:
    """The traceback of `error`, and of what led to it, with the frames of user code only.

    else_all: keep all frames where none is the user's.
    """
    report = traceback.TracebackException.from_exception(error)
    for link in _links(report):
        kept = [frame for frame in link.stack if _is_user(frame.filename)]
        if kept or not else_all:
            link.stack = traceback.StackSummary.from_list(kept)
    return "".join(report.format()).rstrip()


def raised_by_engine(error: BaseException) -> bool:
    """Whether the line that raised `error` is of this package."""
    link = error.__traceback__
    while link is not None and link.tb_next is not None:
        link = link.tb_next
    return link is not None and str(link.tb_frame.f_globals.get("__name__")).partition(".")[0] == "ebrl"


def _is_user(file: str) -> bool:
    if file.startswith("<frozen importlib") or file.endswith(os.path.join("importlib", "__init__.py")):
        return False
    return not file.startswith(OWN) or file.startswith(_USER_SIDE)


def _links(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """`report`, its causes and, of a group, its parts."""
    waiting: list[traceback.TracebackException | None] = [report]
    while waiting:
        if (link := waiting.pop()) is not None:
            yield link
            waiting += [link.__cause__, link.__context__, *(link.exceptions or ())]
