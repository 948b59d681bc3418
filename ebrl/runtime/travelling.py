"""Errors and news on their way from a worker to the driver."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ebrl.errors import EbrlError, StageError
from ebrl.graph.source import user_traceback
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.failure import printable, text_of

T = TypeVar("T")
P = ParamSpec("P")
# Dask replaces an exception of more than 10,000 characters by one that says less.
_LONGEST_MESSAGE, _LONGEST_DETAIL = 2_000, 6_000


def task(function: Callable[Concatenate[Assignment, P], T]) -> Callable[Concatenate[Assignment, P], T]:
    """What a task raises reaches the driver whole: as an error of its stage that can be pickled."""

    @wraps(function)
    def guarded(assignment: Assignment, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(assignment, *args, **kwargs)
        except BaseException as error:
            failed = travelling(error, assignment.stage.name)
        raise failed

    return guarded


def travelling(error: BaseException, stage: str) -> EbrlError:
    """`error` of a task of `stage` without its causes, which may be impossible to pickle, and short enough.

    `detail` tells of the causes in words.
    """
    if not isinstance(error, EbrlError):
        error = StageError(text_of(error), where=stage, detail=user_traceback(error, else_all=True))
    bare = copy(error)
    bare.__cause__ = bare.__context__ = bare.__traceback__ = None  # Dask's way of copying keeps them
    bare.message = _fit(str(bare.message), _LONGEST_MESSAGE)
    bare.detail = _fit(bare.detail, _LONGEST_DETAIL)
    bare.where, bare.place, bare.hint = printable(bare.where), printable(bare.place), printable(bare.hint)
    return bare


def news(data: Any) -> Any:
    """`data` of dicts, lists and plain values with text that every message can carry: one that cannot be encoded
    would close the worker's connection, and the run would wait for ever."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, dict):
        return {news(key): news(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [news(value) for value in data]
    return data


def _fit(text: str, longest: int) -> str:
    return _shortened(printable(_shortened(text, longest)), longest)  # escapes are longer than what they stand for


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
