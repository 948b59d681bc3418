from __future__ import annotations

from bad_envs.counting import Faulty
from ebrl.graph.items import Observation


class FailingReset(Faulty):
    """`reset` raises."""

    def reset(self, seed: int) -> Observation:
        super().reset(seed)
        if self.chosen():
            raise OSError("texture file vanished")
        return self.look()
