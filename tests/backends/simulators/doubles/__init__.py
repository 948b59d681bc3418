"""Small stand-ins for simulators that cannot run everywhere, each a folder to put first on `sys.path`.

They keep what the adapters rely on and stumble over: shapes, types, where things are batched, what is seeded by what.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOREIGN = ("mani_skill", "robosuite", "robocasa", "omnigibson", "omnigibson_scene", "bddl")


@contextmanager
def installed(*folders: str) -> Iterator[None]:
    """`folders` of this package are importable, and shadow what is really installed."""
    kept = _taken_out()
    paths = [str(Path(__file__).parent / folder) for folder in folders]
    sys.path[:0] = paths
    try:
        yield
    finally:
        for path in paths:
            sys.path.remove(path)
        _taken_out()
        sys.modules.update(kept)


def _taken_out() -> dict[str, object]:
    names = [name for name in sys.modules if name.partition(".")[0] in FOREIGN]
    return {name: sys.modules.pop(name) for name in names}
