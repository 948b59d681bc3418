"""Where things stand in the user's files: places for messages, parsed functions, tracebacks of user code."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

_OWN = str(Path(__file__).resolve().parents[1]) + os.sep


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
    return [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OWN, "<frozen importlib"))
        and not frame.filename.endswith(os.path.join("importlib", "__init__.py"))
    ]


def user_traceback(error: BaseException) -> str:
    """The traceback of `error` with the frames of user code only."""
    lines = traceback.format_list(user_frames(error)) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()
