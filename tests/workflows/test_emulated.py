"""The workflow of emulated machines: its environments cost what the profile says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ebrl.backends.registry import parse_uri
from ebrl.backends.simulators.emulated_costs import Cost
from ebrl.errors import UsageError
from ebrl.planner.costs import CPU
from ebrl.planner.profile import read_profile
from ebrl.rehearse.truth import TrueCosts
from ebrl.workflows.emulated import PROFILE, emulated, simulator


def test_chunks_vary_as_the_profile_says() -> None:
    profile = read_profile(Path(PROFILE))
    costs = TrueCosts.of_profile(profile)
    table = costs.simulation.on(CPU)
    assert table is not None
    _, _, options = parse_uri(simulator(profile))
    rng, step = np.random.default_rng(0), Cost("step", options["step_s"], options["step_p99_s"])
    chunks = np.array([[step.draw(rng) for _ in range(profile.chunk)] for _ in range(4000)]).sum(axis=1)
    assert chunks.mean() == pytest.approx(table.seconds(1, 1), rel=0.01)
    assert chunks.std() / chunks.mean() == pytest.approx(math.sqrt(math.expm1(costs.simulation_sigma**2)), rel=0.05)
    assert (options["length"], options["horizon"]) == (300, 300)


def test_environments_on_devices_are_not_emulated() -> None:
    with pytest.raises(UsageError, match="the environments of paper_maniskill_openvla_oft compute on devices"):
        emulated(profile=str(Path(PROFILE).with_name("maniskill_openvla_oft.json")))


def test_the_graph_needs_no_device() -> None:
    graph = emulated(num_envs=4, num_steps=2)
    assert [node.name for node in graph.nodes.values()] == ["simulate", "generate", "train_emulated"]
