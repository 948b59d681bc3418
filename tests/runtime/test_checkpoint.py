from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest

from ebrl.errors import CheckpointError, EbrlError
from ebrl.graph.load import load_workflow
from ebrl.graph.plan import Plan
from ebrl.runtime.checkpoint import Checkpoint, check_fit, newest, path, save

from .conftest import WORKFLOWS

SAVED = Checkpoint(
    workflow="small",
    iteration=4,
    weights={"w": np.ones(3, np.float32)},
    states={"train_ppo": {}},
    counters={"env_steps": 9},
    positions={number: (0, ()) for number in range(4)},
)


def plan(max_staleness: int) -> Plan:
    return Plan(workflow="small", stages=(), loops=(), max_staleness=max_staleness)


def test_the_newest_of_three_comes_back(tmp_path: Path) -> None:
    for iteration in range(1, 6):
        save(tmp_path, attrs.evolve(SAVED, iteration=iteration))
    found = newest(tmp_path, "small")
    assert (found.iteration, found.states, found.counters) == (5, SAVED.states, SAVED.counters)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["000003", "000004", "000005"]
    assert path(tmp_path, 5).is_dir()


def test_one_that_cannot_be_written_is_an_error_for_the_user(tmp_path: Path) -> None:
    (tmp_path / "full").write_text("no folder")
    with pytest.raises(EbrlError, match=r"the checkpoint of iteration 4 cannot be written: .*Not a directory"):
        save(tmp_path / "full", SAVED)


def test_what_a_killed_driver_left_goes_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / ".000003-77").mkdir()
    save(tmp_path, SAVED)
    assert [entry.name for entry in tmp_path.iterdir()] == ["000004"]


def test_what_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        newest(tmp_path, "small")
    save(tmp_path, SAVED)
    with pytest.raises(CheckpointError, match="belongs to workflow 'small', not to 'other'"):
        newest(tmp_path, "other")
    (tmp_path / "000004" / "state.pkl").write_bytes(b"")
    with pytest.raises(CheckpointError, match="000004 is damaged"):
        newest(tmp_path, "small")


@pytest.mark.parametrize(
    ("settings", "max_staleness", "message"),
    [
        (["num_envs=6"], 0, "num_envs is 6, the checkpoint keeps where 4 environments stood"),
        (["iterations=3"], 1, "iterations is 3, the checkpoint is of iteration 4 already"),
    ],
)
def test_parameters_that_do_not_fit(settings: list[str], max_staleness: int, message: str) -> None:
    graph = load_workflow(f"{WORKFLOWS}:small").with_settings(settings)
    with pytest.raises(CheckpointError) as caught:
        check_fit(SAVED, graph, plan(max_staleness))
    assert caught.value.message == message
    assert caught.value.exit_code == 2


def test_another_trainer() -> None:
    with pytest.raises(CheckpointError, match="keeps the stages train_ppo, the workflow trains in slow_train"):
        check_fit(SAVED, load_workflow(f"{WORKFLOWS}:slow")(), plan(1))


def test_parameters_that_fit() -> None:
    for settings, staleness in (([], 0), (["num_envs=6"], 1), (["iterations=4"], 0), (["num_steps=32"], 0)):
        check_fit(SAVED, load_workflow(f"{WORKFLOWS}:small").with_settings(settings), plan(staleness))
