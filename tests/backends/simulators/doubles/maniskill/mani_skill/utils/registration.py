from __future__ import annotations

from typing import Any


class EnvSpec:
    def __init__(self, uid: str, cls: Any, max_episode_steps: int | None, asset_download_ids: list[str]) -> None:
        self.uid, self.cls = uid, cls
        self.max_episode_steps, self.asset_download_ids = max_episode_steps, asset_download_ids

    def make(self, **kwargs: Any) -> Any:
        if self.asset_download_ids:
            print(f"Could not find asset {self.asset_download_ids[0]}")
            if input("(y|n): ") != "y":
                exit()
        return self.cls(**kwargs)


REGISTERED_ENVS: dict[str, EnvSpec] = {}
