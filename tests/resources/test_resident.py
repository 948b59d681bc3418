from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from ebrl.resources.resident import resident_mib


def test_memory_that_was_written_to_counts() -> None:
    before = resident_mib(os.getpid())
    held = np.ones(64 * 2**20, np.uint8)
    after = resident_mib(os.getpid())
    assert before is not None and after is not None
    assert 60 <= after - before <= 80
    del held


def test_a_process_that_is_gone_has_no_size() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert resident_mib(process.pid) is None
