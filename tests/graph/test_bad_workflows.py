"""Every rule, on the smallest workflow that breaks it. The text file beside each is what a user reads, exactly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ebrl.errors import PlanError, UsageError
from ebrl.graph.load import load_workflow
from ebrl.graph.rules import RULES
from ebrl.planner.first_plan import first_plan
from ebrl.resources.pool import ResourcePool

FOLDER = Path(__file__).parents[1] / "bad_workflows"
FAULTS = sorted(file.stem for file in FOLDER.glob("*.txt"))


@pytest.fixture(autouse=True)
def in_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


def expected(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text().rstrip().replace("{folder}", str(FOLDER))


def test_every_file_has_its_message() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} - {"good_stages"} == set(FAULTS)


@pytest.mark.parametrize("name", sorted(set(FAULTS) - {"impossible_resource"}))
def test_message(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_workflow(f"{name}.py")()
    assert str(caught.value) == expected(name)
    assert caught.value.exit_code == 2


def test_impossible_resource_is_refused_by_the_planner() -> None:
    graph = load_workflow("impossible_resource.py")()
    with pytest.raises(PlanError) as caught:
        first_plan(graph, ResourcePool(cores=(0, 1), memory_mib=1024))
    assert str(caught.value) == expected("impossible_resource")


def test_every_rule_is_broken_somewhere() -> None:
    named = {found for name in FAULTS for found in re.findall(r"^error\[([a-z-]+)\]", expected(name), re.MULTILINE)}
    several = {
        "arguments": {"too-many-arguments", "unknown-option"},
        "cycle": {"cycle", "used-before-call", "undeclared-edge"},
        "one_training": {"no-training", "several-trainings"},
        "one_simulation": {"no-simulation", "several-simulations"},
    }
    for rule in RULES:
        assert several.get(rule.__name__, {rule.__name__.replace("_", "-")}) <= named
