"""The contract with the real package behind the adapter, for those whose other tests use a double of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

PROGRAM = """
from importlib import import_module
from ebrl.backends.conformance import check_simulator
factory = getattr(import_module("ebrl.backends.simulators.{backend}"), "{name}")
result["broken"] = [str(outcome) for outcome in check_simulator(lambda: factory("{target}", **{options}))]
"""


@pytest.mark.parametrize(
    ("backend", "name", "target", "options"),
    [
        ("maniskill", "ManiSkillSimulator", "PickCube-v1", {"horizon": 20}),
        ("robocasa", "RobocasaSimulator", "OpenDrawer", {"scene": "primitives", "horizon": 20}),
        ("robocasa", "RobocasaSimulator", "CloseCabinet", {"scene": "primitives", "horizon": 20}),
    ],
)
def test_it_keeps_the_contract(
    in_environment: Callable[[str, str], dict[str, Any]], backend: str, name: str, target: str, options: dict[str, Any]
) -> None:
    program = PROGRAM.format(backend=backend, name=name, target=target, options=options)
    assert in_environment(backend, program) == {"broken": []}
