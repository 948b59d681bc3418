"""Training task: a workflow of this project, as every variant of a comparison reads it.

Simulator, sizes and PPO settings come from the workflow's graph and nowhere else, so that all variants
do the same work by construction.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

import attrs

from ebrl.graph.model import Graph, PolicyRef, SimulatorRef
from ebrl.runtime.order import THREAD_POOLS

ENDLESS = 1_000_000
"""Iterations: the measurement ends a run, not its workflow."""


@attrs.define(frozen=True, kw_only=True)
class TrainingTask:
    """`graph` without evaluation: simulation, generation and training."""

    graph: Graph

    @staticmethod
    def named(name: str, **settings: Any) -> TrainingTask:
        """``lift``, ``lift_stock`` (with robosuite's own controllers) or ``reach``; `settings` replace
        parameters of the workflow, such as num_envs."""
        from ebrl.workflows.lift_ppo import lift_ppo
        from ebrl.workflows.reach_ppo import reach_ppo

        workflows = {"lift": lift_ppo, "lift_stock": lift_ppo, "reach": reach_ppo}
        if name == "lift_stock":
            settings = {"task": "robosuite:Lift?fast_control=false", **settings}
        return TrainingTask.of(workflows[name](iterations=ENDLESS, **settings))

    @staticmethod
    def of(graph: Graph) -> TrainingTask:
        left = {name: node for name, node in graph.nodes.items() if node.stage.kind != "stage"}
        edges = [edge for edge in graph.edges if edge.source in left and edge.target in left]
        return TrainingTask(graph=attrs.evolve(graph, nodes=left, edges=edges))

    @property
    def num_envs(self) -> int:
        return int(self.graph.of_kind("simulation")[0].options["num_envs"])

    @property
    def num_steps(self) -> int:
        """Steps of each environment per iteration."""
        return int(self.graph.of_kind("simulation")[0].options["num_steps"])

    @property
    def simulator(self) -> SimulatorRef:
        reference: SimulatorRef = self._reference("simulation", SimulatorRef)
        return reference

    @property
    def policy(self) -> dict[str, Any]:
        """Options of the policy."""
        return dict(self._reference("training", PolicyRef).options)

    @property
    def ppo(self) -> dict[str, Any]:
        """Settings of the training stage, defaults included."""
        node = self.graph.of_kind("training")[0]
        parameters = inspect.signature(node.stage.function).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
        return defaults | {name: value for name, value in node.values.items() if name in defaults}

    def _reference(self, kind: str, wanted: type) -> Any:
        values = self.graph.of_kind(kind)[0].values.values()
        return next(value for value in values if isinstance(value, wanted))


def make_simulator(reference: SimulatorRef) -> Any:
    """The adapter that EBRL's environment processes run."""
    from ebrl.backends.registry import load_simulator

    return load_simulator(reference.backend)(reference.target, **reference.options)


def one_thread_each() -> None:
    """Environment processes that start from now on compute on one thread, as EBRL's do."""
    os.environ.update(dict.fromkeys(THREAD_POOLS, "1"))
