from __future__ import annotations

from typing import Any

from bad_envs.counting import Faulty
from ebrl.graph.items import Step


class Succeeding(Faulty):
    """Succeeds at step `at`, which ends the episode where `ends`; later steps say no success."""

    def __init__(self, target: str, *, ends: bool = True, **options: Any) -> None:
        super().__init__(target, **options)
        self.ends = ends

    def step(self, action: Any) -> Step:
        step = super().step(action)
        success = self.count == self.at
        return step._replace(success=success, terminated=success and self.ends)
