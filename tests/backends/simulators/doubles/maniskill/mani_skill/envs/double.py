"""A point that walks on a line: batched tensors at every N, one buffer for ever, ManiSkill's ways of seeding."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict

REACH = 3.0


class WalkEnv:
    control_freq = 20
    control_mode = "pd_joint_delta_pos"

    def __init__(
        self,
        num_envs: int = 1,
        obs_mode: str = "state",
        sim_backend: str = "auto",
        render_backend: str = "gpu",
        sensor_configs: dict[str, int] | None = None,
    ) -> None:
        print("Building the scene")
        if os.environ.get("DOUBLE_HAS") == "no vulkan":
            raise RuntimeError("vk::createInstanceUnique: ErrorIncompatibleDriver")
        if os.environ.get("DOUBLE_HAS") == "no cuda" and sim_backend.startswith("physx_cuda"):
            raise RuntimeError('failed to find device "cuda"')
        if sim_backend == "physx_cpu" and num_envs > 1:
            raise RuntimeError("Cannot set the sim backend to 'cpu' and have multiple environments.")
        self.num_envs, self.obs_mode, self.device = num_envs, obs_mode, torch.device("cpu")
        size = sensor_configs or {"height": 128, "width": 128}
        self._size = (size["height"], size["width"])
        self._position = torch.zeros(num_envs)
        self._state = torch.zeros(num_envs, 2)
        self._episode_seed = np.zeros(num_envs, np.int64)
        self.resets: list[list[int]] = []
        self.closed = 0
        self.single_action_space = self._space()

    def _space(self) -> Any:
        return Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        rows = (options or {}).get("env_idx", torch.arange(self.num_envs))
        self.resets.append(rows.tolist())
        if seed is not None:
            # All seeds are replaced, whichever rows are reset.
            self._episode_seed = np.atleast_1d(np.asarray(seed, np.int64))
            assert len(self._episode_seed) == self.num_envs
        with torch.random.fork_rng():
            torch.manual_seed(self._episode_seed[0])
            self._position[rows] = torch.rand(len(rows)) * 0.5
        return self._observation(), {"reconfigure": False}

    def step(self, action: Any) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self._position += torch.as_tensor(action).reshape(self.num_envs)
        success = self._position >= REACH
        truncated = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._observation(), self._position / REACH, success.clone(), truncated, {"success": success}

    def render_rgb_array(self) -> torch.Tensor:
        return torch.full((self.num_envs, 8, 9, 3), 7, dtype=torch.uint8)

    def close(self) -> None:
        self.closed += 1

    def _observation(self) -> Any:
        self._state[:, 0], self._state[:, 1] = self._position, REACH - self._position
        if self.obs_mode == "state":
            return self._state
        images = torch.full((self.num_envs, *self._size, 3), 9, dtype=torch.uint8)
        depth = torch.full((self.num_envs, *self._size, 1), 900, dtype=torch.int16)
        return {
            "agent": {"qpos": self._state},
            "extra": {"is_grasped": self._position > 1},
            "sensor_param": {"base_camera": {"intrinsic_cv": torch.eye(3).repeat(self.num_envs, 1, 1)}},
            "sensor_data": {"base_camera": {"rgb": images, "depth": depth}},
        }


class TwoRobotEnv(WalkEnv):
    def _space(self) -> Any:
        return Dict({"panda-0": Box(-1.0, 1.0, (1,), np.float32), "panda-1": Box(-2.0, 2.0, (2,), np.float32)})

    def step(self, action: Any) -> Any:
        assert {name: part.shape for name, part in action.items()} == {
            "panda-0": (self.num_envs, 1),
            "panda-1": (self.num_envs, 2),
        }
        return super().step(action["panda-0"])


class AskingEnv(WalkEnv):
    def __init__(self, **kwargs: Any) -> None:
        print("Robot xarm6 has assets available for download. Would you like to download them now?")
        input("(y|n): ")
        super().__init__(**kwargs)
