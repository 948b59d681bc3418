from __future__ import annotations

import pytest

from ebrl.backends.policies.mlp import MlpPolicy
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.errors import UsageError
from ebrl.graph.items import Batch
from ebrl.stages import train_emulated


def test_a_policy_that_computes_is_none_of_its_business() -> None:
    policy = MlpPolicy(SimulatorSpec(observation={"state": Space(shape=(3,))}, action=Space(shape=(2,))))
    with pytest.raises(UsageError, match="MlpPolicy computes"):
        train_emulated(policy, Batch([]))
