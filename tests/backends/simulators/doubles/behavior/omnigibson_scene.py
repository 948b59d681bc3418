"""What both doubles of OmniGibson have in common: one scene in which a robot defrosts by moving its arm."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box

GOAL = 2.0


class Gm:
    HEADLESS = False


class Scene:
    action_space = Box(np.array([-1, -2], np.float32), np.array([1, 2], np.float32))

    def __init__(self, config: dict[str, Any]) -> None:
        assert config["scene"] == {"type": "InteractiveTraversableScene", "scene_model": "Ihlen_1_int"}
        if config["task"]["activity_instance_id"] == 404:
            raise FileNotFoundError("Ihlen_1_int_task_defrosting_freezer_0_404_template.json")
        self.random = bool(config["task"].get("randomize_presampled_pose"))
        self.limit = config["task"]["termination_config"]["max_steps"]
        self.images = "rgb" in config["robots"][0]["obs_modalities"]
        self.arm = torch.zeros(3)
        self.steps = 0

    def begin(self) -> dict[str, Any]:
        self.steps = 0
        self.arm[:] = 0
        if self.random:
            self.arm[2] = random.choice(range(100))
        return self.observation()

    def move(self, action: torch.Tensor) -> tuple[float, bool, bool, dict[str, Any]]:
        assert action.shape == (2,)
        self.arm[:2] += torch.as_tensor(action)
        self.steps += 1
        success, late = bool(self.arm[0] >= GOAL), self.steps >= self.limit
        return float(success), success, late, {"done": {"success": success, "termination_conditions": {}}}

    def observation(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"robot_0::proprio": self.arm.double()}
        if self.images:
            shown["robot_0::robot_0:eyes:Camera:0::rgb"] = torch.full((4, 5, 4), 9, dtype=torch.uint8)
        return shown
