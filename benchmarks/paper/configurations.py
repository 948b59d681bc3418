"""Configurations: which policy learns where in the paper's experiments, with how many environments and chunk-steps."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from figure import Figure, assumed, derived, published
from policies import DREAMZERO, GR00T, OPENVLA_OFT, PI0, PI05, Policy
from simulators import BEHAVIOR, LIBERO, MANISKILL, ROBOCASA, Simulator

_RLINF = "RLinf, examples/embodiment/config"


@attrs.define(frozen=True, kw_only=True)
class SetUp:
    """What an algorithm collects for one iteration, on 8 devices."""

    environments: Figure
    epochs: Figure
    """How often each environment goes through a whole horizon."""


@attrs.define(frozen=True, kw_only=True)
class Configuration:
    """A policy and a simulator."""

    policy: Policy
    simulator: Simulator
    chunk: Figure
    """Actions of a chunk."""
    horizon: Figure
    """Control steps after which an environment is reset at the latest."""
    set_ups: Mapping[str, SetUp]
    """``ppo`` and ``grpo``."""
    rendering_nodes: bool = False
    """The simulator has nodes of its own, as many devices as train and generate; else it shares theirs."""

    @property
    def window(self) -> int:
        """Chunk-steps of a whole horizon, which both algorithms record in a row."""
        return round(self.horizon.value / self.chunk.value)

    def iteration(self, algorithm: str, environments: int) -> int:
        return environments * self.window * round(self.set_ups[algorithm].epochs.value)


def _both(environments: Figure, epochs: Figure) -> dict[str, SetUp]:
    return {name: SetUp(environments=environments, epochs=epochs) for name in ("ppo", "grpo")}


CONFIGURATIONS = {
    "libero_gr00t": Configuration(
        policy=GR00T,
        simulator=LIBERO,
        chunk=published(10, "actions", f"{_RLINF}/libero_10_ppo_gr00t.yaml"),
        horizon=published(480, "steps", f"{_RLINF}/libero_10_ppo_gr00t.yaml"),
        set_ups=_both(
            published(64, "", "EBRL paper, and libero_10_ppo_gr00t.yaml"),
            published(8, "horizons", "libero_10_ppo_gr00t.yaml; taken for GRPO too"),
        ),
    ),
    "robocasa_openpi": Configuration(
        policy=PI0,
        simulator=ROBOCASA,
        chunk=published(10, "actions", f"{_RLINF}/robocasa_grpo_openpi.yaml"),
        horizon=published(300, "steps", f"{_RLINF}/robocasa_grpo_openpi.yaml"),
        set_ups=_both(
            published(64, "", "EBRL paper, and robocasa_grpo_openpi.yaml"),
            published(8, "horizons", "robocasa_grpo_openpi.yaml; taken for PPO too"),
        ),
    ),
    "maniskill_openvla_oft": Configuration(
        policy=OPENVLA_OFT,
        simulator=MANISKILL,
        chunk=published(8, "actions", f"{_RLINF}/model/openvla_oft.yaml"),
        horizon=published(80, "steps", f"{_RLINF}/env/maniskill_put_on_plate_in_scene_25_main.yaml"),
        set_ups={
            "ppo": SetUp(
                environments=published(128, "", f"{_RLINF}/maniskill_ppo_openvlaoft.yaml"),
                epochs=published(1, "horizons", "maniskill_ppo_openvlaoft.yaml"),
            ),
            "grpo": SetUp(
                environments=published(256, "", f"{_RLINF}/maniskill_grpo_openvlaoft.yaml"),
                epochs=published(1, "horizons", "maniskill_grpo_openvlaoft.yaml"),
            ),
        },
    ),
    "libero_dreamzero": Configuration(
        policy=DREAMZERO,
        simulator=LIBERO,
        chunk=published(24, "actions", f"{_RLINF}/droid_ppo_dreamzero.yaml; taken for LIBERO"),
        horizon=published(480, "steps", f"{_RLINF}/libero_10_ppo_gr00t.yaml"),
        set_ups=_both(
            assumed(64, "", "as with GR00T"),
            published(1, "horizons", "droid_ppo_dreamzero.yaml; taken for both"),
        ),
    ),
    "behavior_openpi": Configuration(
        policy=PI05,
        simulator=BEHAVIOR,
        chunk=published(32, "actions", f"{_RLINF}/behavior_ppo_openpi_pi05_pytorch.yaml"),
        horizon=published(4096, "steps", f"{_RLINF}/behavior_ppo_openpi_pi05_pytorch.yaml"),
        set_ups=_both(
            derived(32, "", "4 on each of 8 ray-tracing devices, as RLinf's 8 on 2"),
            published(2, "horizons", "behavior_ppo_openpi_pi05_pytorch.yaml; taken for GRPO too"),
        ),
        rendering_nodes=True,
    ),
}
