"""A workflow whose evaluations record videos, as the command line asks for it."""

from __future__ import annotations

import attrs

from ebrl.errors import UsageError
from ebrl.graph.model import Graph, Node

_SETTINGS = ("record_video", "record_every")


def recorded(graph: Graph, every: int) -> Graph:
    """`graph` with at least one video in the evaluations of every `every`-th iteration.

    Raises UsageError where no stage records videos, or one is not called at these iterations.
    """
    stages = [node for node in graph.nodes.values() if set(_SETTINGS) <= set(node.stage.settings)]
    if not stages:
        raise UsageError(
            "no stage of this workflow records videos",
            where=graph.name,
            place=graph.place,
            hint="call ebrl.stages.evaluate in it",
        )
    return attrs.evolve(graph, nodes={**graph.nodes, **{node.name: _recorded(node, every) for node in stages}})


def _recorded(node: Node, every: int) -> Node:
    called = int(node.options["every"])
    if every % called:
        raise UsageError(
            f"it is called every {called} iterations, so it cannot record every {every}",
            where=node.name,
            place=node.place,
            hint=f"choose a multiple of {called}",
        )
    videos = max(1, node.values.get("record_video", 0))
    return attrs.evolve(node, values={**node.values, "record_video": videos, "record_every": every})
