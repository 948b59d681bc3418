from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from ebrl.cli import app
from ebrl.graph.load import load_workflow
from ebrl.graph.model import SimulatorRef

FILE = Path(__file__).parents[2] / "workflows" / "libero_object_ppo.py"


def test_it_is_checked_and_planned_without_libero() -> None:
    for command in ("check", "plan"):
        result = CliRunner().invoke(app, [command, str(FILE)])
        assert result.exit_code == 0, result.output


def test_it_asks_for_cameras_and_the_instruction() -> None:
    graph = load_workflow(str(FILE)).with_settings(["image_size=64"])
    for name in ("simulate", "evaluate"):
        found = graph.nodes[name].reference(SimulatorRef)
        assert found is not None
        options = found[1].options
        assert options["cameras"] == ("agentview", "robot0_eye_in_hand")
        assert options["image_size"] == (64, 64)
        assert "instruction" in options["observations"]
