"""Profiles of `emulated:<profile>`: options by name, with costs measured on a CPU machine under some load.

They are upper bounds of one slow core, meant for tests of scheduling and not for predictions of yours.
"""

from __future__ import annotations

from typing import Any

from ebrl.backends.simulators.emulated_costs import mean_of


def _costs(
    step: tuple[float, float], reset: tuple[float, float], state: int, action: int, horizon: int, **options: Any
) -> dict[str, Any]:
    """`step` and `reset`: median and P99 in milliseconds."""
    found = {"state": state, "action": action, "horizon": horizon, **options}
    for name, (median_ms, p99_ms) in (("step", step), ("reset", reset)):
        found[f"{name}_s"] = mean_of(median_ms / 1e3, p99_ms / 1e3)
        found[f"{name}_p99_s"] = p99_ms / 1e3
    return found


def _images(cameras: int) -> dict[str, Any]:
    return {"cameras": cameras, "image": 128}


_INSTRUCTION = {"instruction": "pick up the object and put it in the basket"}

PROFILES: dict[str, dict[str, Any]] = {
    "constant": {"step_s": 0.01, "reset_s": 0.01, "horizon": 100},
    "lift": _costs((9.1, 13), (3, 4), 60, 7, 500, control_hz=20.0),
    "lift_images": _costs((57, 105), (160, 250), 60, 7, 500, control_hz=20.0, **_images(1)),
    "nut_assembly": _costs((10.7, 19.5), (270, 360), 80, 7, 500, control_hz=20.0),
    "two_arm_lift": _costs((17, 25), (270, 360), 100, 14, 500, control_hz=20.0),
    "libero": _costs((12, 20.6), (30, 40), 110, 7, 600, control_hz=20.0, **_INSTRUCTION),
    "libero_spatial": _costs((17, 23), (700, 800), 110, 7, 600, control_hz=20.0, **_INSTRUCTION),
    "libero_images": _costs((98, 225), (2300, 2600), 110, 7, 600, control_hz=20.0, **_INSTRUCTION, **_images(2)),
    "fetch": _costs((1.8, 3), (0.8, 1.2), 16, 4, 50, control_hz=25.0),
    "metaworld": _costs((0.8, 1.25), (20, 32), 39, 4, 500, control_hz=80.0),
    "reacher": _costs((0.065, 0.08), (0.1, 0.12), 10, 2, 50, control_hz=50.0),
    "maniskill": _costs((2.9, 6), (5, 8), 42, 8, 50, control_hz=20.0),
    "maniskill_images": _costs((90, 177), (100, 150), 42, 8, 50, control_hz=20.0, **_images(1)),
    "robocasa": _costs((36, 47), (4000, 6000), 60, 12, 500, control_hz=20.0),
    "robocasa_images": _costs((536, 892), (4000, 6000), 60, 12, 500, control_hz=20.0, **_images(3)),
}
