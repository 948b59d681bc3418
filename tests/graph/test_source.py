from __future__ import annotations

import pytest

from ebrl.errors import UsageError
from ebrl.graph.load import load_workflow
from ebrl.graph.source import raised_by_engine, user_traceback


def test_causes_come_first_and_engine_frames_are_left_out() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            load_workflow("nowhere.py")
        except UsageError as error:
            raise RuntimeError("no workflow today") from error
    text = user_traceback(caught.value)
    assert text.index("there is no file nowhere.py") < text.index("direct cause") < text.index("no workflow today")
    assert "load.py" not in text
    assert "load_workflow(" in text


def test_frames_of_the_engine_are_kept_where_there_are_no_others() -> None:
    with pytest.raises(UsageError) as caught:
        load_workflow("nowhere.py")
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)  # type: ignore[union-attr]
    assert "load.py" in user_traceback(error, else_all=True)
    assert "load.py" not in user_traceback(error)


def test_the_parts_of_a_group_are_shown() -> None:
    assert "two" in user_traceback(ExceptionGroup("several", [ValueError("one"), ValueError("two")]))


def test_who_raised_an_error() -> None:
    with pytest.raises(UsageError) as by_engine:
        load_workflow("nowhere.py")
    with pytest.raises(UsageError) as by_user:
        raise UsageError("mine")
    assert raised_by_engine(by_engine.value)
    assert not raised_by_engine(by_user.value)
    assert not raised_by_engine(UsageError("never raised"))
