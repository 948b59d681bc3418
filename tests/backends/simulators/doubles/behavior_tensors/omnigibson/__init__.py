"""Double of OmniGibson 3.9: one Environment of N scenes that answers with tensors."""

from __future__ import annotations

import signal
from typing import Any

import torch
from omnigibson_scene import Scene

from omnigibson import macros

__all__ = ["Environment", "macros"]

signal.signal(signal.SIGINT, lambda *_: None)


class Environment:
    def __init__(self, configs: dict[str, Any]) -> None:
        assert configs["robots"][0]["model"] == "r1pro" and "type" not in configs["robots"][0]
        self.num_envs = configs["env"]["num_envs"]
        self._scenes = [Scene(configs) for _ in range(self.num_envs)]
        self.action_space = self._scenes[0].action_space

    def reset(self, env_indices: torch.Tensor | None = None, get_obs: bool = True, **kwargs: Any) -> Any:
        assert env_indices is not None
        return [self._scenes[int(row)].begin() for row in env_indices], {"obs_info": []}

    def step(self, action: torch.Tensor, n_render_iterations: int = 1) -> Any:
        assert action.shape == (self.num_envs, 2)
        moved = [scene.move(row) for scene, row in zip(self._scenes, action, strict=True)]
        rewards, terminated, truncated, infos = zip(*moved, strict=True)
        observations = [scene.observation() for scene in self._scenes]
        return observations, torch.tensor(rewards), torch.tensor(terminated), torch.tensor(truncated), list(infos)

    def close(self) -> None:
        pass
