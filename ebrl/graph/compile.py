"""From a graph to its order of work: rollout loops and a topological order.

Weights travel through `latest` edges, which never block. Without them only stages that feed each other
item by item remain in a cycle: simulation and generation. Each such strongly connected component is a
rollout loop, whose stages stay resident; every other stage runs one Dask task per iteration.
"""

from __future__ import annotations

import attrs
import networkx as nx

from ebrl.graph.model import Graph


@attrs.define(frozen=True, kw_only=True)
class Order:
    """What `compile_graph` finds."""

    stages: tuple[str, ...]
    """Topological along streams, without the feedback edges within loops; otherwise in the order of the calls."""
    loops: tuple[tuple[str, ...], ...]
    """Members of every rollout loop, in the order of `stages`."""


def compile_graph(graph: Graph) -> Order:
    position = {name: number for number, name in enumerate(graph.nodes)}
    forward = nx.DiGraph()
    forward.add_nodes_from(graph.nodes)
    cycles = stream_cycles(graph)
    for edge in graph.edges:
        within = any({edge.source, edge.target} <= members for members in cycles)
        # A stream declared ahead outside a loop is a stream like any other: its reader comes after its producer.
        if not edge.latest and not (edge.feedback and within):
            forward.add_edge(edge.source, edge.target)
    stages = tuple(nx.lexicographical_topological_sort(forward, key=position.__getitem__))
    rank = {name: number for number, name in enumerate(stages)}
    loops = [tuple(sorted(members, key=rank.__getitem__)) for members in cycles]
    return Order(stages=stages, loops=tuple(sorted(loops, key=lambda loop: rank[loop[0]])))


def stream_network(graph: Graph) -> nx.DiGraph:
    """The graph without its `latest` edges."""
    streams = nx.DiGraph()
    streams.add_nodes_from(graph.nodes)
    streams.add_edges_from((edge.source, edge.target) for edge in graph.edges if not edge.latest)
    return streams


def stream_cycles(graph: Graph) -> list[set[str]]:
    """The sets of stages that feed each other through streams."""
    streams = stream_network(graph)
    return [
        members
        for members in nx.strongly_connected_components(streams)
        if len(members) > 1 or any(streams.has_edge(name, name) for name in members)
    ]


def cycle_text(graph: Graph, members: set[str], through: str) -> str:
    """The shortest cycle of streams within `members` that passes `through`: ``a -> b -> a``, from the stage
    that is called first."""
    streams = stream_network(graph).subgraph(members)
    returns = (nx.shortest_path(streams, successor, through) for successor in streams.successors(through))
    cycle = min(returns, key=len)
    start = cycle.index(next(name for name in graph.nodes if name in cycle))
    turned = cycle[start:] + cycle[:start]
    return " -> ".join([*turned, turned[0]])
