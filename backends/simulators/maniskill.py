"""ManiSkill's tasks as Simulators, on the CPU. Runs in environment processes: standard library, numpy, ManiSkill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ebrl.backends.simulators.batched_row import BatchedRow
from ebrl.backends.simulators.maniskill_batched import ManiSkillBatch
from ebrl.errors import UsageError
from ebrl.graph.items import Array


class ManiSkillSimulator(BatchedRow):
    """``maniskill:PickCube-v1``: one environment, simulated by PhysX on the CPU.

    obs_mode: ManiSkill's own. ``state`` gives one vector ``state``; ``state_dict`` its parts, such as
        ``agent.qpos``; ``rgb``, ``rgb+state``, ``rgb+depth`` ... a uint8 image [height, width, 3] under the name of
        every camera.
    horizon: steps after which an episode is truncated; None takes the limit that ManiSkill registered.
    image_size: height and width of all cameras in pixels; None leaves those of the task.
    options: further arguments of the task, for example ``control_mode``, ``reward_mode`` or ``robot_uids``.

    An episode ends with success or failure, as ManiSkill counts them. `batched` gives N environments on a GPU.

    Raises SimulatorNotFound for an unknown task and for missing assets (with the command that downloads them),
    SimulatorError where no Vulkan device is found, UsageError for options that the task does not accept.
    """

    fork_safe = False
    """ManiSkill holds a Vulkan device from the start, whatever it observes."""

    batched = ManiSkillBatch

    def __init__(
        self,
        task: str,
        *,
        obs_mode: str = "state",
        horizon: int | None = None,
        image_size: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        if "num_envs" in options:
            raise UsageError(
                f"maniskill:{task} is one environment per process", hint="num_envs belongs to the simulation stage"
            )
        options = {"sim_backend": "physx_cpu", "render_backend": "cpu", **options}
        batch = ManiSkillBatch(task, num_envs=1, obs_mode=obs_mode, horizon=horizon, image_size=image_size, **options)
        super().__init__(batch)

    def render(self) -> Array:
        """The scene as ManiSkill shows it to people: uint8 [height, width, 3]."""
        image: Array = self._batch.render()[0]
        return image
