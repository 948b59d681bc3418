"""What a profile is of: workflow, machine, simulator, policy and sizes, for `ebrl.planner.profile.doubts`."""

from __future__ import annotations

from typing import Any

from ebrl.graph.model import Graph, PolicyRef, SimulatorRef
from ebrl.graph.plan import Plan
from ebrl.observe.run_config import installed_versions
from ebrl.planner.plans import chunks_per_iteration
from ebrl.resources.pool import ResourcePool


def described(graph: Graph, plan: Plan, pool: ResourcePool) -> dict[str, Any]:
    """What a profile of `graph` on this machine says about itself, see `Profile`."""
    simulator = graph.of_kind("simulation")[0].reference(SimulatorRef)
    policy = graph.of_kind("generation")[0].reference(PolicyRef)
    options = {} if policy is None else policy[1].options
    return {
        "workflow": graph.name,
        "machine": pool.machine,
        "cores": len(pool.cores),
        "simulator": "none" if simulator is None else str(simulator[1]),
        "policy": "none" if policy is None else f"{policy[1].backend}({_options(options)})",
        "versions": dict(installed_versions()),
        "environments": int(graph.of_kind("simulation")[0].options["num_envs"]),
        "chunk": int(options.get("chunk", 1)),
        "iteration": chunks_per_iteration(graph, plan),
        "window": int(graph.of_kind("simulation")[0].options["num_steps"]),
    }


def _options(options: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
