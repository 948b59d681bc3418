"""``gymnasium:lit:Lit-v0``, where this folder is on the path: it shows an image, a state and a text."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Lit(gymnasium.Env[Any, Any]):
    """Solved by five actions in a row towards the light, or away from it where the instruction says so."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Dict(
        eye=spaces.Box(0, 255, (32, 40, 3), np.uint8),
        state=spaces.Box(-np.inf, np.inf, (2,)),
        instruction=spaces.Text(50),
    )
    action_space = spaces.Box(-1, 1, (1,))

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.right = 0, 0
        self.side, self.away = self.np_random.integers(0, 2, 2)
        return self._show(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        wanted = 1 if self.side != self.away else -1
        self.right += bool(action[0] * wanted > 0)
        return self._show(), float(action[0] * wanted), False, self.count == 5, {"is_success": self.right == 5}

    def render(self) -> Any:
        image = np.full((32, 40, 3), 20, np.uint8)
        image[8:24, 20 * self.side : 20 * self.side + 20] = 240
        return image

    def _show(self) -> dict[str, Any]:
        state = np.array([self.count, self.right], np.float32)
        return {"eye": self.render(), "state": state, "instruction": "away from the light" if self.away else "to it"}


gymnasium.register("Lit-v0", Lit)
