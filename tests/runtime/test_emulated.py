"""Emulated environments in real processes."""

from __future__ import annotations

import attrs

from .playing import Play, order


def test_faults_of_environments_by_number() -> None:
    """Numbers, not rows: replicas share the environments of a stage."""
    options = {"step_s": 0.0, "reset_s": 0.0, "horizon": 5, "action": 1, "faults": "raise@step:3", "faulty": (7,)}
    simulator = attrs.evolve(
        order("counting.Counting", **options),
        name="emulated:constant",
        factory={"module": "ebrl.backends.simulators.emulated", "name": "emulated"},
        target="constant",
    )
    with Play(simulator, num_envs=2, num_steps=5, settings={"numbers": (3, 7), "in_order": True}) as play:
        play.batch()
        (lost,) = play.lost
        assert (lost["environment"], lost["step"]) == (7, 3)
        assert lost["message"] == "EmulatedFault: injected: raise@step:3"
