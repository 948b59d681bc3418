"""Loaded by every stage worker when it starts."""

from __future__ import annotations

import os

from distributed import Worker

from ebrl.runtime import bridge


def dask_setup(worker: Worker) -> None:
    # Ctrl-C in a terminal is for the driver, which ends the workers in order.
    os.setpgid(0, 0)
    bridge.install(worker)
