"""Where modules beside a workflow file are found: after all others, so that none of them hides one that others need."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

_folders: list[str] = []
"""Of the workflow files that were loaded, the newest first."""


def search_last(folder: str) -> None:
    """Find modules in `folder` too: after all that is installed, before those beside other workflows."""
    _folders[:] = [folder, *(other for other in _folders if other != folder and other in sys.path)]
    sys.path[:] = [entry for entry in sys.path if entry not in _folders] + _folders


def found_elsewhere(name: str, folder: str) -> str | None:
    """The file of the module `name` that Python would import instead of one in `folder`, if there is one."""
    others = [entry for entry in sys.path if entry not in _folders and Path(entry).resolve() != Path(folder)]
    spec = PathFinder.find_spec(name, others)
    return None if spec is None else spec.origin  # a mere folder of that name has none and comes last
