"""No environment process survives the process that started it, whatever either is doing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

_PARENT = """
from playing import Play, order
play = Play(order({simulator!r}, at=30), num_envs=2, num_steps=None)
with play:
    play.at_rest()
    play.rollout.admit(0, 100, 0)
    polls = iter(range(100000))
    play.until(lambda: next(polls) > 100 or play.rollout._environments[0].steps >= 29)
    print(*play.rollout.pids(), flush=True)
    play.until(lambda: False, timeout_s=100.0)
"""


@pytest.mark.parametrize("simulator", ["counting.Counting", "hanging.HangingStep", "hanging.HangingNative"])
def test_a_killed_parent_takes_its_environments_along(simulator: str) -> None:
    folder = Path(__file__).parent
    if "Counting" in simulator:
        program = _PARENT.format(simulator=simulator).replace(", at=30", "")
    else:
        program = _PARENT.format(simulator=simulator)
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])},
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(children) == 2 and all(child.is_running() for child in children)
    finally:
        parent.kill()
        parent.communicate()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
