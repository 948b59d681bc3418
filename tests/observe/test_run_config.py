from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from ebrl.errors import UsageError
from ebrl.graph.model import Graph
from ebrl.observe.records import write_json
from ebrl.observe.run_config import RunConfig, changed_parameters, restored_parameters

CONFIG = RunConfig(workflow="reach", file="/flows/reach.py", parameters={"num_envs": 4}, seed=3)


def test_config_of_a_graph_names_its_file_and_what_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.touch()
    config = RunConfig.of(Graph(name="flow", place=f"{file}:12", parameters={"a": 1}), seed=1, schedule="sync")
    assert (config.file, config.workflow, config.parameters) == (str(file), "flow", {"a": 1})
    assert {"python", "dask", "torch"} <= set(config.versions)
    assert RunConfig.of(Graph(name="flow", place="<stdin>:1"), seed=1, schedule="sync").file == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"workflow": '])
def test_damaged_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"config\.json is damaged"):
        RunConfig.read(tmp_path)


def test_schedule_and_what_it_goes_without_come_back(tmp_path: Path) -> None:
    config = RunConfig.of(Graph(name="flow"), seed=1, schedule="hybrid", without=["pipeline"])
    write_json(tmp_path / "config.json", config)
    assert RunConfig.read(tmp_path) == config
    assert (config.schedule, config.without) == ("hybrid", ("pipeline",))


def test_config_of_a_newer_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**attrs.asdict(CONFIG), "invented_later": 1}))
    assert RunConfig.read(tmp_path) == CONFIG


class Arm(enum.Enum):
    LEFT = 1


def test_parameters_come_back_in_their_types(tmp_path: Path) -> None:
    def flow(
        hidden: tuple[int, ...],
        limit: float,
        arm: Arm,
        data: Path,
        names: list[str],
        task: str,
        seed: int | None = None,
    ) -> None: ...

    given = {
        "hidden": (64, 64), "limit": math.inf, "arm": Arm.LEFT, "data": Path("a/b"), "names": ["x"], "task": "inf",
        "seed": None,
    }  # fmt: skip
    assert restored_parameters(flow, stored(tmp_path, given)) == given


def test_enum_members_in_a_union_come_back(tmp_path: Path) -> None:
    def flow(arm: Arm | None, limit: float | None, name: str | Arm) -> None: ...

    given = {"arm": Arm.LEFT, "limit": math.inf, "name": "LEFT"}
    assert restored_parameters(flow, stored(tmp_path, given)) == given


def stored(folder: Path, given: dict[str, Any]) -> Mapping[str, Any]:
    """Parameters as a run directory keeps them."""
    write_json(folder / "config.json", RunConfig.of(Graph(name="flow", parameters=given), seed=0, schedule="ebrl"))
    return RunConfig.read(folder).parameters


def test_parameter_that_the_workflow_no_longer_has() -> None:
    def flow(num_envs: int) -> None: ...

    with pytest.raises(UsageError) as error:
        restored_parameters(flow, {"num_env": 3})
    assert error.value.message == "that run had a parameter 'num_env', which workflow 'flow' no longer has"
    assert error.value.hint == "did you mean 'num_envs'?"


def test_changed_parameters_are_named_with_both_values() -> None:
    def config(**parameters: Any) -> RunConfig:
        return RunConfig(workflow="w", file="", parameters=parameters)

    before = config(hidden=[16], num_envs=4, seed=None)
    assert changed_parameters(before, config(hidden=(16,), num_envs=4, seed=None)) == ""
    assert changed_parameters(before, config(hidden=(32,), num_envs=2, seed=None)) == (
        "hidden from [16] to [32], num_envs from 4 to 2"
    )
