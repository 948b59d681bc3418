"""A drawer that opens by the first action; no episode ends by itself, and each builds its model anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


class Fixture:
    def __init__(self, name: str, kitchen: Any) -> None:
        self.name, self.pos, self._kitchen = name, np.array([2.0, -0.35, 0.75]), kitchen


class Drawer(Fixture):
    def get_door_state(self, env: Any) -> dict[str, Any]:
        return {"door": np.float64(env.opened)}


class Cabinet(Fixture):
    door_joint_names = ("cabinet_doorhinge",)

    def get_joint_state(self, env: Any, joint_names: Any) -> dict[str, float]:
        return dict.fromkeys(joint_names, env.opened)


class Kitchen:
    fixture = ("drawer", Drawer)

    def __init__(
        self,
        robots: Any,
        control_freq: float = 20,
        ignore_done: bool = True,
        use_camera_obs: bool = True,
        has_renderer: bool = False,
        has_offscreen_renderer: bool = True,
        renderer: str = "mjviewer",
        layout_ids: Any = None,
        style_ids: Any = None,
        obj_instance_split: str | None = None,
        seed: int | None = None,
    ) -> None:
        assert renderer == "mujoco" and not use_camera_obs and not has_offscreen_renderer
        self.rng = np.random.default_rng(seed)
        self.layout_and_style_ids = [(layout, style) for layout in layout_ids for style in style_ids]
        self.fixture_refs: dict[str, Any] = {}
        self.timestep = 0
        self.sim = SimpleNamespace(model=SimpleNamespace(_model=SimpleNamespace(ncam=0)), data=None)
        self._robot = np.zeros(3)  # one array for ever
        self.action_spec = (np.full(12, -1.0), np.full(12, 1.0))

    def _get_obj_cfgs(self) -> list[Any]:
        raise FileNotFoundError("models/assets/objects")

    def reset(self) -> dict[str, Any]:
        print("resetting")
        layout, _ = self.layout_and_style_ids[0]
        for group, parts in layout.items():
            for fixtures in parts.values():
                for config in fixtures:
                    assert not config["name"].endswith(group), "a layout is used up by its first reset"
                    config["name"] += f"_{group}"
        assert self._get_obj_cfgs() == []
        self.timestep, self.opened = 0, 0.0
        self.side = str(self.rng.choice(["left", "right"]))
        self._robot[:] = self.rng.uniform(size=3)
        name, kind = self.fixture
        self.fixture_refs = {name: (kind(name, self), False)}
        return self._observation()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        assert np.abs(action).max() <= 1
        self.timestep += 1
        self.opened += 0.25 * float(action[0])
        return self._observation(), float(self._check_success()), False, {}

    def _check_success(self) -> Any:
        return np.bool_(self.opened >= 0.95)

    def get_ep_meta(self) -> dict[str, Any]:
        return {"lang": f"Open the {self.side} {self.fixture[0]}."}

    def _observation(self) -> dict[str, Any]:
        return {"robot0_eef_pos": self._robot, "distr_counter_1_pos": np.zeros(3), "robot0_proprio-state": self._robot}

    def close(self) -> None: ...


class OpenDrawer(Kitchen):
    def __init__(self, robot_spawn_deviation_pos_x: float = 0.05, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class OpenCabinet(Kitchen):
    fixture = ("fxtr", Cabinet)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class BoilPot(OpenDrawer): ...


REGISTERED_KITCHEN_ENVS = {kind.__name__: kind for kind in (OpenDrawer, OpenCabinet, BoilPot)}
