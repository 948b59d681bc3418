from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def fresh_imports() -> Iterator[None]:
    """Forget what a test imported from outside the packages: workflow files and their helpers share names."""
    path, before = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and "." not in name and "site-packages" not in Path(file).parts:
            del sys.modules[name]
