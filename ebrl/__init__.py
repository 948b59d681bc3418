"""EBRL: asynchronous embodied reinforcement learning as a declarative workflow engine.

Names load on first use: `import ebrl` alone imports neither Dask nor torch, so that environment
processes and `ebrl plan` on a laptop stay light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ActionChunk": "ebrl.graph.items",
    "Batch": "ebrl.graph.items",
    "Episode": "ebrl.graph.items",
    "Observation": "ebrl.graph.items",
    "Step": "ebrl.graph.items",
    "Trajectory": "ebrl.graph.items",
    "Weights": "ebrl.graph.items",
    "Policy": "ebrl.backends.protocols",
    "Simulator": "ebrl.backends.protocols",
    "SimulatorSpec": "ebrl.backends.protocols",
    "Space": "ebrl.backends.protocols",
    "register_accelerator": "ebrl.backends.registry",
    "register_policy": "ebrl.backends.registry",
    "register_simulator": "ebrl.backends.registry",
    "generation": "ebrl.graph.stage",
    "simulation": "ebrl.graph.stage",
    "stage": "ebrl.graph.stage",
    "training": "ebrl.graph.stage",
    "latest": "ebrl.graph.workflow",
    "policy": "ebrl.graph.workflow",
    "simulator": "ebrl.graph.workflow",
    "stream": "ebrl.graph.workflow",
    "workflow": "ebrl.graph.workflow",
    "Plan": "ebrl.graph.plan",
    "ResourcePool": "ebrl.resources.pool",
    "State": "ebrl.runtime.reporting",
    "report": "ebrl.runtime.reporting",
    "stop": "ebrl.runtime.reporting",
    "Environments": "ebrl.runtime.environments",
    "launch": "ebrl.runtime.run",
    "EbrlError": "ebrl.errors",
}

__all__ = [
    "ActionChunk",
    "Batch",
    "EbrlError",
    "Environments",
    "Episode",
    "Observation",
    "Plan",
    "Policy",
    "ResourcePool",
    "Simulator",
    "SimulatorSpec",
    "Space",
    "State",
    "Step",
    "Trajectory",
    "Weights",
    "generation",
    "latest",
    "launch",
    "policy",
    "register_accelerator",
    "register_policy",
    "register_simulator",
    "report",
    "simulation",
    "simulator",
    "stage",
    "stop",
    "stream",
    "training",
    "workflow",
]

if TYPE_CHECKING:
    from ebrl.backends.protocols import Policy, Simulator, SimulatorSpec, Space
    from ebrl.backends.registry import register_accelerator, register_policy, register_simulator
    from ebrl.errors import EbrlError
    from ebrl.graph.items import ActionChunk, Batch, Episode, Observation, Step, Trajectory, Weights
    from ebrl.graph.plan import Plan
    from ebrl.graph.stage import generation, simulation, stage, training
    from ebrl.graph.workflow import latest, policy, simulator, stream, workflow
    from ebrl.resources.pool import ResourcePool
    from ebrl.runtime.environments import Environments
    from ebrl.runtime.reporting import State, report, stop
    from ebrl.runtime.run import launch


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ebrl' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
