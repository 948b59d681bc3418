from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def fresh_imports() -> Iterator[None]:
    """Forget what a test imported from folders that it added: workflow files and their helpers share names."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    added = set(sys.path) - set(path)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and str(Path(file).parent) in added:
            del sys.modules[name]
