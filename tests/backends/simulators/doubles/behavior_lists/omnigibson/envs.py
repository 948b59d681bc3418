from __future__ import annotations

from typing import Any

from omnigibson_scene import Scene


class Environment:
    def __init__(self, configs: dict[str, Any]) -> None:
        assert "num_envs" not in configs["env"] and configs["robots"][0]["type"] == "R1Pro"
        self.scene = Scene(configs)
        self.action_space = self.scene.action_space

    def reset(self, get_obs: bool = True, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.scene.begin(), {"obs_info": {}}


class VectorEnvironment:
    def __init__(self, num_envs: int, config: dict[str, Any]) -> None:
        self.num_envs = num_envs
        self.envs = [Environment(config) for _ in range(num_envs)]

    def reset(self) -> Any:
        raise AssertionError("resets all environments")

    def step(self, actions: list[Any]) -> tuple[list[Any], list[float], list[bool], list[bool], list[Any]]:
        assert isinstance(actions, list) and len(actions) == self.num_envs
        moved = [env.scene.move(action) for env, action in zip(self.envs, actions, strict=True)]
        observations = [env.scene.observation() for env in self.envs]
        rewards, terminated, truncated, infos = (list(column) for column in zip(*moved, strict=True))
        return observations, rewards, terminated, truncated, infos

    def close(self) -> None:
        pass
