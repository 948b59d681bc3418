from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ebrl.errors import UsageError
from ebrl.graph.load import load_workflow

FLOW = "import ebrl\nimport {helper} as helper\n\n@ebrl.workflow\ndef flow(): return helper.__file__\n"


def test_a_helper_hides_no_installed_module(tmp_path: Path) -> None:
    (tmp_path / "this.py").write_text("")
    (tmp_path / "helpful.py").write_text("")
    (tmp_path / "reading_flow.py").write_text(FLOW.format(helper="helpful"))
    assert load_workflow(str(tmp_path / "reading_flow.py")).function() == str(tmp_path / "helpful.py")
    assert sys.path[-1] == str(tmp_path)


def test_helpers_of_the_newest_workflow_come_first(tmp_path: Path) -> None:
    for name in ("a", "b", "a"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "near.py").write_text("")
        (folder / f"{name}_near_flow.py").write_text(FLOW.format(helper="near"))
        sys.modules.pop("near", None)
        sys.modules.pop(f"{name}_near_flow", None)
        assert load_workflow(str(folder / f"{name}_near_flow.py")).function() == str(folder / "near.py")


def test_a_workflow_named_like_an_installed_module_is_refused(tmp_path: Path) -> None:
    """Also where nobody has imported that module yet."""
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "gripperlib.py").write_text("")
    (tmp_path / "gripperlib.py").write_text("")
    sys.path.insert(0, str(tmp_path / "installed"))
    with pytest.raises(UsageError) as caught:
        load_workflow(str(tmp_path / "gripperlib.py"))
    installed = tmp_path / "installed" / "gripperlib.py"
    assert caught.value.message == f"gripperlib.py would hide the module 'gripperlib' of {installed}"
    assert caught.value.hint == "rename the file"
