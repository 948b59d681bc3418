"""A policy that takes its time: acting and training cost what a profile says of the shares of emulated devices."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

import numpy as np

from ebrl.backends.accelerators.emulated import applied
from ebrl.backends.protocols import SimulatorSpec
from ebrl.errors import UsageError
from ebrl.graph.items import ActionChunk, Array, Batch, Observation
from ebrl.planner.costs import StageCosts
from ebrl.planner.problem import GENERATION, TRAINING
from ebrl.planner.profile import read_profile
from ebrl.rehearse.truth import Draws, TrueCosts

WHERE = "policy emulated"


class EmulatedPolicy:
    """Sleeps as long as a rehearsal says that the call takes (see `TrueCosts.of_profile`), and acts with zeros.

    It runs on the shares that its process was given of emulated devices: see `ebrl.backends.accelerators.emulated`.
    Weights are on their way for the profile's ``publish_s``; where stages take turns on a device, each spends
    ``swap_s`` before it works. CPU time of the host is left out.

    spec: what the simulator declares; decides the shape of actions.
    profile: path of a profile with costs of generation and training on the models of the devices.
    chunk: K, which must be that of the profile: its costs are of whole chunks.
    seed: of the spread of durations.

    Raises UsageError where the profile is none, or has another chunk.
    """

    batch_invariant = True

    def __init__(self, spec: SimulatorSpec, *, profile: str, chunk: int = 1, seed: int = 0) -> None:
        found = read_profile(Path(profile))
        if chunk != found.chunk:
            raise UsageError(
                f"the profile {profile} is of chunks of {found.chunk} actions, not {chunk}",
                where=WHERE,
                hint=f'ebrl.policy("emulated", profile=..., chunk={found.chunk})',
            )
        self.chunk = chunk
        self._profile, self._seed = profile, seed
        self._costs = TrueCosts.of_profile(found)
        self._draws: Draws | None = None
        self._action = spec.action
        self._weights = {"trained": np.zeros(1, np.float32)}

    def act(self, observations: Batch[Observation], *, deterministic: bool = False) -> Batch[ActionChunk]:
        """Zeros for every row, after the time of one call with so many rows on the device of this process."""
        rows, shape = len(observations), self._action.shape
        ((model, percent),) = self._parts(GENERATION, self._costs.generation)[:1]
        time.sleep(self._drawn().generation_s(model, percent, rows)[0])
        return Batch.stacked(
            ActionChunk,
            actions=np.zeros((rows, self.chunk, *shape), self._action.dtype),
            log_probs=np.zeros((rows, self.chunk, math.prod(shape)), np.float32),
        )

    def train(self, chunks: int) -> None:
        """Let pass what an iteration of `chunks` chunk-steps takes, divided over the devices of this process."""
        parts = self._parts(TRAINING, self._costs.training)
        costs = self._drawn().training_s(parts, math.ceil(chunks / len(parts)))
        time.sleep(self._swap_s() + max(seconds for seconds, _ in costs))
        self._weights["trained"] += 1

    def prepare(self, arrays: Mapping[str, Array]) -> None:
        """Weights travel."""
        time.sleep(self._swap_s() + self._costs.publish_s)

    def weights(self) -> dict[str, Array]:
        """How often it was trained."""
        return {name: array.copy() for name, array in self._weights.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        self._weights["trained"][...] = arrays["trained"]

    def _swap_s(self) -> float:
        return self._costs.swap_s if any(share.in_turn for share in applied()) else 0.0

    def _drawn(self) -> Draws:
        """Late, when the devices are known: replicas of one seed must not take equally long."""
        if self._draws is None:
            devices = " ".join(share.device for share in applied())
            self._draws = Draws(crc32(f"{self._seed} {devices}".encode()), self._costs)
        return self._draws

    def _parts(self, stage: str, costs: StageCosts) -> list[tuple[str, float]]:
        """(model, percent) of every device that this process has."""
        parts = [(share.model, share.sm_percent) for share in applied()]
        if not parts:
            raise UsageError(
                f"the plan gives the {stage} no share of an emulated device",
                where=WHERE,
                hint="launch with resources=emulated(machine(...)) and a profile or plan that divides its devices",
            )
        if unknown := [model for model, _ in parts if costs.on(model) is None]:
            raise UsageError(
                f"the profile {self._profile} says nothing of the {stage} on {unknown[0] or 'an unknown device'}",
                where=WHERE,
                hint=f"it knows {', '.join(costs.devices()) or 'no device'}",
            )
        return parts
