"""BEHAVIOR's household activities as Simulators. Runs in environment processes: standard library, numpy, OmniGibson."""

from __future__ import annotations

from typing import Any

from ebrl.backends.simulators.batched_row import BatchedRow
from ebrl.backends.simulators.behavior_batched import BehaviorBatch
from ebrl.errors import UsageError


class BehaviorSimulator(BatchedRow):
    """``behavior:defrosting_freezer``: one environment of an activity in OmniGibson, which needs an RTX GPU.

    definition, instance: which of the activity's definitions, and of its prepared starts.
    scene: the house; None takes the first that the activity's authors chose.
    robot: OmniGibson's name, such as R1Pro or Fetch.
    modalities: what the robot observes, for example ``("proprio",)`` or ``("proprio", "rgb")``.
    horizon: steps after which an episode is truncated.
    action_frequency: actions per simulated second.
    task: further settings of OmniGibson's BehaviorTask, for example ``{"randomize_presampled_pose": True}``.

    An episode terminates when all goal conditions hold (``spec.extra["goals"]``, from bddl). Observations carry
    OmniGibson's names, such as ``robot_0.proprio``; images are uint8 [height, width, 3]. `batched` gives N
    environments in the one process that Isaac Sim allows.

    Raises SimulatorNotFound for an unknown activity and where OmniGibson is missing, UsageError for what the
    activity does not have.
    """

    fork_safe = False
    """Isaac Sim holds its GPU from the start."""

    batched = BehaviorBatch

    def __init__(self, activity: str, **options: Any) -> None:
        if "num_envs" in options:
            raise UsageError(
                f"behavior:{activity} is one environment per process", hint="num_envs belongs to the simulation stage"
            )
        super().__init__(BehaviorBatch(activity, num_envs=1, **options))
