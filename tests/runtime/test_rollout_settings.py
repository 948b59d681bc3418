from __future__ import annotations

import pytest

from ebrl.runtime.rollout_settings import Deadlines, fault_settings
from ebrl.schedule.recycling import SHARE


def test_options_that_are_left_out_keep_the_defaults() -> None:
    found = fault_settings({"num_envs": 4, "start_deadline_s": None, "most_restarts": None}, 8000)
    assert found == {"deadlines": Deadlines(), "memory_limit_mib": pytest.approx(SHARE * 2000)}


def test_every_option_reaches_its_setting() -> None:
    options = {
        "num_envs": 1,
        "start_deadline_s": 600,
        "reset_deadline_s": 7,
        "step_deadline_s": 5,
        "most_restarts": 9,
        "memory_limit_mib": 700,
    }
    assert fault_settings(options, 8000) == {
        "deadlines": Deadlines(start_s=600, reset_s=7, step_s=5),
        "most_restarts": 9,
        "memory_limit_mib": 700.0,
    }
