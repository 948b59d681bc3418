"""Simulators that tell about the interpreter they run in."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Sequence  # noqa: UP035 (runs in Python 3.8)

from bad_envs.counting import Counting
from ebrl.backends.protocols import SimulatorSpec


class Imports(Counting):
    """`spec.extra` says which packages can be imported."""

    def __init__(self, target: str, *, names: Sequence[str]) -> None:
        super().__init__(target)
        found = {name: importlib.util.find_spec(name) is not None for name in names}
        self.spec = _with(imports=found, python=sys.executable)


class Table(Counting):
    """`spec.extra` repeats the options."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target)
        self.spec = _with(**options)


class Secret:
    pass


class Private(Counting):
    """`spec.extra` holds an object of this module."""

    spec = SimulatorSpec(observation=Counting.spec.observation, action=Counting.spec.action, extra={"own": Secret()})


class Missing(Counting):
    """Imports its simulator when it is made, as adapters do."""

    def __init__(self, target: str) -> None:
        import no_such_simulator  # noqa: F401


def _with(**extra: Any) -> SimulatorSpec:
    return SimulatorSpec(observation=Counting.spec.observation, action=Counting.spec.action, extra=extra)
