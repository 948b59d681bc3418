"""N environments of a ManiSkill task in one process, simulated on a GPU. Standard library, numpy, ManiSkill only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import BatchedStep, SimulatorSpec
from ebrl.backends.simulators import maniskill_package as package
from ebrl.backends.simulators.batched_row import rows_of
from ebrl.errors import SimulatorError
from ebrl.graph.items import Array


class ManiSkillBatch:
    """A `BatchedSimulator`: ``ManiSkillSimulator.batched("PickCube-v1", num_envs=512)``.

    Options and errors are those of `ManiSkillSimulator`; ``sim_backend`` may name the GPU (``physx_cuda:1``).

    ManiSkill's own environment is driven without ManiSkillVectorEnv, whose automatic reset would put the true
    last observation into ``final_observation`` and the next episode's first in its place.
    """

    def __init__(
        self,
        task: str,
        *,
        num_envs: int,
        obs_mode: str = "state",
        horizon: int | None = None,
        image_size: Sequence[int] | None = None,
        sim_backend: str = "physx_cuda",
        **options: Any,
    ) -> None:
        settings = {"obs_mode": obs_mode, "sim_backend": sim_backend, **options}
        self._environment, limit = package.make(task, num_envs, image_size, settings)
        self.num_envs = int(num_envs)
        self._horizon = int(horizon or limit)
        self._steps = np.zeros(self.num_envs, np.int64)
        self._seeds = np.arange(self.num_envs, dtype=np.int64)
        self._actions = package.Actions(self._environment.single_action_space)
        first = self.reset(self._seeds)
        if not first:
            self.close()
            raise SimulatorError(f"ManiSkill's {task} observes nothing", hint="use another obs_mode")
        self.spec = SimulatorSpec(
            observation=package.spaces(first),
            action=self._actions.space,
            control_hz=float(self._environment.control_freq),
            max_episode_steps=self._horizon or None,
            instruction=package.instruction(self._environment),
            extra={
                "obs_mode": obs_mode,
                "control_mode": str(self._environment.control_mode),
                "sim_backend": sim_backend,
            },
        )

    def reset(self, seeds: Array, env_ids: Array | None = None) -> dict[str, Array]:
        new, rows = rows_of(self.num_envs, seeds, env_ids)
        if not rows.size:
            return {key: np.empty((0, *space.shape), space.dtype) for key, space in self.spec.observation.items()}
        self._seeds[rows], self._steps[rows] = new, 0
        observation, _ = self._environment.reset(seed=self._native_seeds(rows), options=self._selection(rows))
        return {key: value[rows] for key, value in package.flat(observation).items()}

    def step(self, actions: Array) -> BatchedStep:
        observation, rewards, terminated, _, info = self._environment.step(self._actions.native(actions))
        self._steps += 1
        over = self._steps >= self._horizon if self._horizon else np.zeros(self.num_envs, bool)
        return BatchedStep(
            package.flat(observation),
            package.host(rewards, np.float32),
            package.host(terminated, bool),
            over,
            package.host(info["success"], bool) if "success" in info else None,
        )

    def render(self) -> Array:
        """The scene of every environment as ManiSkill shows it to people: uint8 [N, height, width, 3]."""
        return package.host(self._environment.render_rgb_array(), np.uint8)

    def close(self) -> None:
        self._environment.close()

    def _native_seeds(self, rows: Array) -> list[int]:
        """One for every row, whatever is reset: ManiSkill replaces all generators by those that it is given, and
        seeds torch, with which most tasks place their objects, by the first of them. Unless that one is new,
        every partial reset would begin with the same scene."""
        seeds = self._seeds.copy()
        if 0 not in rows:
            seeds[0] = seeds[rows[0]]
        return [int(seed) for seed in seeds]

    def _selection(self, rows: Array) -> dict[str, Any]:
        if len(rows) == self.num_envs:
            return {}
        import torch

        return {"env_idx": torch.as_tensor(rows, device=self._environment.device)}
