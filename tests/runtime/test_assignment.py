from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

import ebrl
from ebrl.errors import UsageError
from ebrl.graph.model import Node, SimulatorRef
from ebrl.interpreters.store import IsolatedEnvironment, Marker
from ebrl.runtime import birth
from ebrl.runtime.assignment import by_value, program
from ebrl.runtime.simulation import environment_order
from ebrl.stages import simulate

REFERENCE = SimulatorRef(backend="gymnasium", target="Pendulum-v1")


@ebrl.simulation
def own(env: ebrl.Simulator, chunk: ebrl.ActionChunk, factor: float = 2.0) -> Iterator[ebrl.Step]:
    for action in chunk:
        yield env.step(action * factor)


def node(stage: object, **values: object) -> Node:
    return Node(name="play", stage=stage.definition, values={"env": REFERENCE, **values})  # type: ignore[attr-defined]


class _Assignment:
    """What `environment_order` reads of an assignment."""

    path = ()
    log_folder = None
    backends: dict[str, object] = {}  # noqa: RUF012

    def __init__(self, played: Node) -> None:
        self.packed_program = cloudpickle.dumps(program(played))


def test_the_ready_made_stage_can_be_imported_everywhere() -> None:
    assert program(node(simulate)) is birth.execute
    assert not by_value(cloudpickle.dumps(program(node(simulate))))


def test_the_light_form_does_what_the_ready_made_stage_does() -> None:
    class Echo:
        def step(self, action: object) -> object:
            return action

    assert list(birth.execute(Echo(), [1, 2, 3])) == list(simulate.function(Echo(), [1, 2, 3])) == [1, 2, 3]  # type: ignore[arg-type]


def test_a_stage_of_ones_own_gets_its_settings() -> None:
    played = program(node(own, factor=3.0))
    assert by_value(cloudpickle.dumps(played))

    class Echo:
        def step(self, action: float) -> float:
            return action

    assert list(played(Echo(), [1.0, 2.0])) == [3.0, 6.0]


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Gymnasium's own environment, of another Python."""
    monkeypatch.setenv("EBRL_HOME", str(tmp_path))
    environment = IsolatedEnvironment("gymnasium")
    environment.python.parent.mkdir(parents=True)
    environment.python.symlink_to(sys.executable)
    environment.complete(Marker(pins="other", python="3.9.18", packages={}, size_mib=1, created=""))
    return str(environment.python)


def test_an_environment_made_for_the_backend_wins(older: str) -> None:
    order = environment_order(played := node(simulate), _Assignment(played))  # type: ignore[arg-type]
    assert order.python == older
    assert order.remedy.startswith("the pins of gymnasium changed")


def test_byte_code_of_another_python_is_refused(older: str) -> None:
    with pytest.raises(UsageError) as caught:
        environment_order(played := node(own), _Assignment(played))  # type: ignore[arg-type]
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert caught.value.message == (
        "gymnasium:Pendulum-v1 runs in Python 3.9, which cannot execute the workflow's own simulation stage, "
        f"compiled by Python {here}"
    )
    assert caught.value.where == "play.env"
    assert caught.value.hint == "use ebrl.stages.simulate, or run ebrl with Python 3.9"
