"""Loaded by every stage worker when it starts."""

from __future__ import annotations

import os
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave the terminal's process group: Ctrl-C is for the driver, which ends the workers in order."""
    os.setpgid(0, 0)
