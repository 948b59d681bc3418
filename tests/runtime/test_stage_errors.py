"""What the code of a stage raises, as the user of a run sees it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ebrl.errors import SimulatorNotFound, StageError, UsageError
from ebrl.runtime.travelling import travelling

from .conftest import WORKFLOWS, Outcome, ebrl_run


def test_an_error_that_cannot_be_pickled_keeps_its_message_traceback_and_cause(launch: Callable[..., Outcome]) -> None:
    with pytest.raises(StageError) as caught:
        launch("deadly", "how=unpicklable")
    error = caught.value
    assert (error.where, error.message) == ("dying", "Unpicklable: no gripper with code 7")
    assert "KeyError: 'gripper'" in error.detail
    assert "direct cause of the following exception" in error.detail
    assert "raise Unpicklable(" in error.detail
    assert "hosting.py" not in error.detail


def test_a_usage_error_of_a_stage_is_an_error_of_that_stage(tmp_path: Path) -> None:
    run = ebrl_run(f"{WORKFLOWS}:deadly", "--set", "how=usage", cwd=tmp_path)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 1, output
    assert "error: dying: the reward model is missing" in output
    assert "hint: download it" in output


def test_an_error_travels_without_what_led_to_it() -> None:
    error = StageError("no", where="stage")
    error.__cause__, error.__context__ = ValueError(threading.Lock()), OSError(threading.Lock())
    bare = travelling(error, "stage")
    assert (bare.__cause__, bare.__context__, str(bare)) == (None, None, str(error))
    assert isinstance(travelling(SimulatorNotFound("none"), "stage"), SimulatorNotFound)
    assert isinstance(pickle.loads(pickle.dumps(bare)), StageError)


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    """Dask would put another exception in its place."""
    try:
        raise ValueError("begin" + "x" * 100_000 + "end")
    except ValueError as error:
        bare = travelling(error, "stage")
    assert len(str(bare)) < 10_000
    assert bare.message.startswith("ValueError: begin") and bare.message.endswith("end")
    assert bare.detail.startswith("Traceback") and bare.detail.endswith("end")


def test_an_error_whose_message_raises() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert travelling(Mute(), "stage").message == "Mute (and its message raises)"


def test_modules_beside_a_workflow_hide_no_other(tmp_path: Path) -> None:
    for name in ("small.py", "rewards.py"):
        (tmp_path / name).write_text((WORKFLOWS.parent / name).read_text())
    for name in ("random.py", "secrets.py", "gymnasium.py", "torch.py", "tornado.py"):
        (tmp_path / name).write_text("raise ImportError('the wrong one')")
    (tmp_path / "elsewhere").mkdir()
    run = ebrl_run(f"{tmp_path / 'small.py'}:judged", "--set", "iterations=1", cwd=tmp_path / "elsewhere")
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output


def test_an_error_of_the_engine_inside_a_stage_stays_what_it_is(launch: Callable[..., Outcome]) -> None:
    with pytest.raises(UsageError) as caught:
        launch("misjudged")
    assert isinstance(caught.value, SimulatorNotFound)


@pytest.mark.parametrize(
    ("name", "where", "stage"),
    [("named", "stage", "naming"), ("named", "train", "train_named"), ("misnamed", "", "misnaming")],
)
def test_an_error_that_cannot_be_encoded(launch: Callable[..., Outcome], name: str, where: str, stage: str) -> None:
    with pytest.raises(StageError) as caught:
        launch(name, *([f"where={where}"] if where else []))
    assert (caught.value.where, caught.value.message) == (stage, "OSError: no caf\\udce9")
    assert caught.value.detail.endswith("OSError: no caf\\udce9")


def test_a_reason_to_stop_that_cannot_be_encoded(launch: Callable[..., Outcome]) -> None:
    outcome = launch("named")
    assert (outcome.summary["status"], outcome.summary["reason"]) == ("finished", "caf\\udce9")
    assert outcome.of("report")[0]["metrics"] == {"caf\\udce9": 1.0}


def test_every_part_of_an_error_can_be_encoded() -> None:
    name = "\udce9" * 9_000
    bare = travelling(StageError(name, where=name[:9], place=name[:9], detail=name, hint=name[:9]), "stage")
    assert len(str(bare).encode()) < 10_000
