"""Calls: which task goes to which worker, with which inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import attrs
from distributed import Future

from ebrl.backends.protocols import SimulatorSpec
from ebrl.graph.items import Weights
from ebrl.graph.model import Graph, Node
from ebrl.graph.plan import Plan, replica_cores, request_size
from ebrl.runtime import tasks
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.flight import Flight

Outputs = Mapping[str, list[Future[Any]]]
"""Stage -> what its replicas made of one batch."""


class Calls:
    """Submits tasks to `flight`. Nothing here waits for a result."""

    def __init__(self, graph: Graph, plan: Plan, assignments: Mapping[str, list[Assignment]], flight: Flight) -> None:
        self._graph, self._plan, self._flight = graph, plan, flight
        self._assignments = {name: list(replicas) for name, replicas in assignments.items()}
        self._trainer = graph.of_kind("training")[0].name
        self.weights: Future[Any] | None = None
        """The newest."""
        self._asked = 0

    @property
    def training(self) -> Assignment:
        return self._assignments[self._trainer][0]

    def simulations(self) -> list[Assignment]:
        return [assignment for node in self._graph.of_kind("simulation") for assignment in self._assignments[node.name]]

    def replica(self, node: str) -> Assignment:
        """The one that takes the calls of an item stage."""
        return self._assignments[node][0]

    def warm(self) -> None:
        """Let everybody else import while the simulators start."""
        for replicas in self._assignments.values():
            for assignment in replicas:
                if assignment.stage.kind != "simulation":
                    self._flight.submit(f"{assignment.worker}-warm", tasks.warm, assignment)

    def probe(self, version: int) -> list[Future[Any]]:
        """Start the simulators and ask for their spec."""
        return [
            self._flight.submit(f"{assignment.worker}-start", tasks.probe, assignment, version)
            for assignment in self.simulations()
        ]

    def know(self, spec: SimulatorSpec) -> None:
        """All that follows carries `spec`."""
        self._assignments = {
            name: [attrs.evolve(assignment, spec=spec) for assignment in replicas]
            for name, replicas in self._assignments.items()
        }

    def first_weights(self, saved: Weights | None) -> Future[Any]:
        return self._flight.submit(f"{self._trainer}-0-start", tasks.first_weights, self.training, saved)

    def ask(self, kind: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """A question to the first replica of the stage of `kind`."""
        assignment = self.replica(self._graph.of_kind(kind)[0].name)
        self._asked += 1
        key = f"{assignment.worker}-{function.__name__}-{self._asked}"
        return self._flight.submit(key, function, assignment, *arguments)

    def training_ports(self, outputs: Outputs) -> dict[str, Any]:
        """What the training reads of a complete batch."""
        return self._ports(self._graph.nodes[self._trainer], outputs)

    def retune(self, plan: Plan) -> None:
        """Everybody follows `plan`: those at work at once, and whoever is replaced from its beginning."""
        self._plan = plan
        self._asked += 1
        size = request_size(plan)
        for name, replicas in self._assignments.items():
            stage = plan.stage(name)
            self._assignments[name] = [
                attrs.evolve(
                    each,
                    stage=attrs.evolve(
                        stage, quota=attrs.evolve(stage.quota, cores=replica_cores(stage, each.replica))
                    ),
                    request_size=size,
                )
                for each in replicas
            ]
            for each in self._assignments[name]:
                self._flight.submit(f"{each.worker}-plan-{self._asked}", tasks.retune, each)

    def serve(self, weights: Future[Any], version: int) -> None:
        """Generate with `weights` from now on."""
        self.weights = weights
        for generation in self._graph.of_kind("generation"):
            for assignment in self._assignments[generation.name]:
                self._flight.submit(f"{assignment.worker}-{version}", tasks.serve, assignment, weights)

    def roll(self, batch: int, min_version: int, *, without: Collection[str]) -> Outputs:
        """The rollout of one batch and the item stages that follow it, but for those named."""
        replicas = self.simulations()
        windows = self._plan.stage(self._trainer).batch_size
        shares = [windows // len(replicas) + (number < windows % len(replicas)) for number in range(len(replicas))]
        outputs = {
            replicas[0].stage.name: [
                self._flight.submit(f"{each.worker}-{batch}", tasks.advance, each, batch, share, min_version)
                for each, share in zip(replicas, shares, strict=True)
            ]
        }
        for name in self._plan.item_stages:
            node = self._graph.nodes[name]
            if name != self._trainer and name not in without and batch % int(node.options["every"]) == 0:
                outputs[name] = [self.item(node, batch, outputs)]
        return outputs

    def item(self, node: Node, iteration: int, outputs: Outputs) -> Future[Any]:
        """A call of an item stage."""
        assignment, ports = self.replica(node.name), self._ports(node, outputs)
        return self._flight.submit(f"{assignment.worker}-{iteration}", tasks.call, assignment, iteration, ports)

    def train(self, key: str, iteration: int, outputs: Outputs) -> None:
        ports = self.training_ports(outputs)
        self._flight.submit(key, tasks.train, self.training, iteration, ports)

    def snapshot(self, node: str, version: int) -> Future[Any]:
        """What a checkpoint keeps of a stage."""
        return self._flight.submit(f"snapshot-{node}-{version}", tasks.snapshot, self.replica(node))

    def positions(self, version: int) -> list[Future[Any]]:
        """Where every environment stands."""
        return [
            self._flight.submit(f"positions-{assignment.worker}-{version}", tasks.positions, assignment, version)
            for assignment in self.simulations()
        ]

    def _ports(self, node: Node, outputs: Outputs) -> dict[str, Any]:
        """Input port -> the newest weights for registers, the outputs of all replicas for streams."""
        return {
            edge.input: self.weights if edge.latest else outputs[edge.source] for edge in self._graph.inputs(node.name)
        }
