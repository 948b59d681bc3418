"""Programs in the interpreters that `ebrl env create` made, where there are some."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ebrl.interpreters.packages import BOOTSTRAP, shared
from ebrl.interpreters.store import IsolatedEnvironment

_HEAD = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("bootstrap", {bootstrap!r})
bootstrap = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bootstrap)
sys.meta_path.insert(0, bootstrap.Finder({places!r}))
import numpy as np
result = {{}}
"""


@pytest.fixture(scope="session")
def in_environment() -> Callable[[str, str], dict[str, Any]]:
    """`run(backend, program)`: what the program put into `result`; it must print nothing. Skips where there is none."""

    def run(backend: str, program: str) -> dict[str, Any]:
        environment = IsolatedEnvironment(backend)
        if environment.marker() is None:
            pytest.skip(f"there is no environment for it: ebrl env create {backend}")
        text = _HEAD.format(bootstrap=BOOTSTRAP, places=shared()) + program + "\nsys.stdout.write(json.dumps(result))\n"
        done = subprocess.run(
            [str(environment.python), "-c", text], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=170
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run
