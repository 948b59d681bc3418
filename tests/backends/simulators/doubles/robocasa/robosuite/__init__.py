"""Double of robosuite 1.5.2 as RoboCasa uses it."""

from __future__ import annotations

from typing import Any

from robosuite import macros

__all__ = ["macros", "make"]


def make(task: str, **arguments: Any) -> Any:
    from robocasa.environments.kitchen.kitchen import REGISTERED_KITCHEN_ENVS

    return REGISTERED_KITCHEN_ENVS[task](**arguments)
