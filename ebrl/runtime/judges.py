"""Judges: stages that new weights set off, such as evaluation, and when each is called."""

from __future__ import annotations

from collections.abc import Callable

from ebrl.graph.model import Graph, Node
from ebrl.runtime.flight import Flight


class Judges:
    """`call` calls a judge on the newest weights."""

    def __init__(self, graph: Graph, flight: Flight, call: Callable[[Node], None], emit: Callable[..., None]) -> None:
        self.nodes = [node for node in graph.of_kind("stage") if all(edge.latest for edge in graph.inputs(node.name))]
        self.names = {node.name for node in self.nodes}
        self._flight, self._call, self._emit = flight, call, emit
        self._judged: dict[str, int] = {}

    def published(self, version: int) -> None:
        """Weights of `version` exist: call whose turn it is."""
        for node in self.nodes:
            if version > 0 and version % int(node.options["every"]) == 0:
                self._judge(node, version)

    def last(self, version: int) -> None:
        """No weights will follow those of `version`: call who has not seen them."""
        for node in self.nodes:
            if self._judged.get(node.name) != version:
                self._judge(node, version)

    def _judge(self, node: Node, version: int) -> None:
        if self._flight.busy({node.name}):
            # It takes longer than `every` iterations: let it finish rather than fall ever further behind.
            self._emit("skipped", stage=node.name, iteration=version)
            return
        self._call(node)
        self._judged[node.name] = version
