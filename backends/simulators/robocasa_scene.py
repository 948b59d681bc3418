"""A kitchen of what the RoboCasa package ships, boxes without objects: for tests, and where 10 GB are too many.

Standard library only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TASKS = ("OpenDrawer", "CloseDrawer", "OpenCabinet", "CloseCabinet")
"""Tasks that can be done in it."""

_TEXTURE = str(Path(__file__).with_name("textures") / "plain.png")  # RoboCasa asks for "textures/" in the path


def primitives() -> dict[str, Any]:
    """A layout as RoboCasa reads it, a new one with each call: RoboCasa changes the names in it.

    A floor of 4 by 3 m, a wall, a counter, in it a drawer, and over it a cabinet with a door.
    """
    door = {
        "texture": _TEXTURE,
        "panel_type": "slab",
        "handle_type": "bar",
        "handle_config": {"texture": _TEXTURE},
    }
    counter = {"top_texture": _TEXTURE, "base_texture": _TEXTURE, "hollow": [False, True]}
    return {
        "room": {
            "walls": [_box("wall", "wall", [2.0, 1.5, 0.02], [2.0, 0.0, 1.5], texture=_TEXTURE)],
            "floor": [_box("floor", "floor", [2.0, 1.5, 0.02], [2.0, -1.5, 0.0], texture=_TEXTURE)],
        },
        "main_group": {
            "bottom_row": [
                _box("counter", "counter", [1.6, 0.65, 0.92], [2.0, -0.325, 0.46], **counter),
                _box("drawer", "drawer", [0.5, 0.6, 0.25], [2.0, -0.35, 0.75], **door),
            ],
            "top_row": [_box("cabinet", "single_cabinet", [0.5, 0.4, 0.92], [2.0, -0.2, 1.85], **door)],
        },
    }


def _box(name: str, kind: str, size: list[float], pos: list[float], **options: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "size": size, "pos": pos, **options}
