from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ebrl.errors import UsageError
from ebrl.graph.load import load_workflow, loading

TWO = """
import ebrl
from helper import ANSWER

@ebrl.workflow
def first(): ...

@ebrl.workflow
def second(): return ANSWER
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("ANSWER = 42")
    file = tmp_path / "two_flows.py"
    file.write_text(TWO)
    return file


def refused(reference: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load_workflow(str(reference))
    return caught.value


def test_a_helper_beside_the_file_is_found_from_any_folder(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (two.parent / "elsewhere").mkdir()
    monkeypatch.chdir(two.parent / "elsewhere")
    workflow = load_workflow("../two_flows.py:second")
    assert workflow.function() == 42
    assert workflow.__module__ == "two_flows"
    assert sys.modules["two_flows"].second is workflow
    assert load_workflow(f"{two}:first").__name__ == "first"


def test_several_workflows_need_a_name(two: Path) -> None:
    error = refused(two)
    assert error.message == "two_flows.py has 2 workflows: first, second"
    assert error.hint == f"name one: {two}:first"


def test_wrong_name_suggests(two: Path) -> None:
    error = refused(f"{two}:secnd")
    assert (error.message, error.hint) == ("two_flows.py has no workflow 'secnd'", "did you mean 'second'?")


def test_imported_workflows_do_not_count_beside_own_ones(two: Path) -> None:
    file = two.parent / "third_flow.py"
    file.write_text("import ebrl\nfrom two_flows import first, second\n\n@ebrl.workflow\ndef third(): ...\n")
    assert load_workflow(str(file)).__name__ == "third"
    assert load_workflow(f"{file}:first").__name__ == "first"


def test_missing_file_suggests(two: Path) -> None:
    error = refused(two.parent / "two_flow.py")
    assert error.message == f"there is no file {two.parent / 'two_flow.py'}"
    assert error.hint == f"did you mean '{two}'?"
    assert refused("nowhere/flow.py:name").message == "there is no file nowhere/flow.py"
    assert refused(two.parent).message == f"{two.parent} is a folder"


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "random.py").write_text("")
    (tmp_path / "pytest.py").write_text("")
    assert "is no Python file" in refused(tmp_path / "notes.txt").message
    assert refused(tmp_path / "random.py").message == "random.py cannot be imported as module 'random'"
    assert refused(tmp_path / "pytest.py").message.startswith("pytest.py would hide the module 'pytest' of ")


def test_a_second_file_of_the_same_name_replaces_the_first(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_flow.py").write_text(f"import ebrl\n\n@ebrl.workflow\ndef {name}(): ...\n")
    assert load_workflow(str(tmp_path / "a" / "same_flow.py")).__name__ == "a"
    assert load_workflow(str(tmp_path / "b" / "same_flow.py")).__name__ == "b"


def test_code_under_a_main_guard_does_not_run_and_loading_is_known(tmp_path: Path) -> None:
    file = tmp_path / "guarded_flow.py"
    file.write_text(
        "import ebrl\nfrom ebrl.graph.load import loading\nSEEN = loading.get()\n\n"
        "@ebrl.workflow\ndef flow(): ...\n\n"
        "if __name__ == '__main__':\n    ebrl.launch(flow())\n"
    )
    load_workflow(str(file))
    assert sys.modules["guarded_flow"].SEEN is True
    assert loading.get() is False


def test_a_failing_helper_names_its_own_line(two: Path) -> None:
    (two.parent / "helper.py").write_text("\n\nraise KeyError('lost')\n")
    error = refused(two)
    assert error.place == f"{two.parent / 'helper.py'}:3"
    assert error.message == "two_flows.py raised KeyError while it was imported: 'lost'"
    assert "ebrl/graph" not in error.detail
    assert "importlib" not in error.detail


def test_syntax_error(tmp_path: Path) -> None:
    file = tmp_path / "unfinished_flow.py"
    file.write_text("import ebrl\n\n\ndef flow(:\n    pass\n")
    error = refused(file)
    assert error.message == "unfinished_flow.py raised SyntaxError while it was imported: invalid syntax"
    assert error.place == f"{file}:4"
