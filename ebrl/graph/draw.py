"""A graph as text, mermaid or DOT. Strings only: nothing needs Graphviz."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ebrl.graph.compile import compile_graph
from ebrl.graph.model import Edge, Graph, Node, PolicyRef, SimulatorRef
from ebrl.graph.ports import type_name

_MERMAID_SHAPES = {
    "simulation": ("[/", "/]"),
    "generation": ("([", "])"),
    "training": ("[[", "]]"),
    "stage": ("[", "]"),
}
_DOT_SHAPES = {"simulation": "parallelogram", "generation": "ellipse", "training": "box3d", "stage": "box"}


def text(graph: Graph) -> str:
    """Stages in order of work, each with its inputs and outputs."""
    order = compile_graph(graph)
    lines = [f"workflow {graph.name}"]
    for name in order.stages:
        node = graph.nodes[name]
        lines.append(f"  {name}  [{', '.join([node.stage.kind, *_details(node)])}]")
        for edge in graph.inputs(name):
            lines.append(f"    <- {edge.input}: {_carried(graph, edge)} from {edge.source}.{edge.output}{_how(edge)}")
        for port in node.stage.outputs:
            readers = [f"{edge.target}.{edge.input}" for edge in graph.outputs(name) if edge.output == port.name]
            used = f" to {', '.join(readers)}" if readers else " (unused)"
            lines.append(f"    -> {port.name}: {type_name(port.item)}{used}")
    lines.extend(f"  rollout loop: {' -> '.join([*loop, loop[0]])}" for loop in order.loops)
    return "\n".join(lines)


def mermaid(graph: Graph) -> str:
    """A mermaid flowchart; dotted arrows are `latest` edges."""
    ids = {name: f"n{number}" for number, name in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for name, node in graph.nodes.items():
        left, right = _MERMAID_SHAPES[node.stage.kind]
        label = "<br/>".join([name, *_details(node)]).replace('"', "#quot;")
        lines.append(f'  {ids[name]}{left}"{label}"{right}')
    for edge in graph.edges:
        arrow = "-.->" if edge.latest else "-->"
        lines.append(f'  {ids[edge.source]} {arrow}|"{_carried(graph, edge)}"| {ids[edge.target]}')
    return "\n".join(lines)


def dot(graph: Graph) -> str:
    """A DOT digraph; dashed arrows are `latest` edges."""
    lines = [f"digraph {_quoted(graph.name)} {{", "  rankdir=LR;"]
    for name, node in graph.nodes.items():
        label = "\\n".join(_escaped(part) for part in [name, *_details(node)])
        lines.append(f'  {_quoted(name)} [label="{label}", shape={_DOT_SHAPES[node.stage.kind]}];')
    for edge in graph.edges:
        style = ", style=dashed" if edge.latest else ""
        label = _quoted(_carried(graph, edge))
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={label}{style}];")
    return "\n".join([*lines, "}"])


FORMATS: Mapping[str, Callable[[Graph], str]] = {"text": text, "mermaid": mermaid, "dot": dot}


def _details(node: Node) -> Iterator[str]:
    """Simulator or policy, and the engine options that are set."""
    for value in node.values.values():
        if isinstance(value, SimulatorRef):
            yield str(value)
        elif isinstance(value, PolicyRef):
            yield f"policy {value.backend}"
    yield from (f"{name}={value}" for name, value in node.options.items() if value is not None)


def _carried(graph: Graph, edge: Edge) -> str:
    ports = {port.name: port for port in graph.nodes[edge.source].stage.outputs}
    return type_name(ports[edge.output].item)


def _how(edge: Edge) -> str:
    words = [f"latest, staleness up to {edge.max_staleness}"] if edge.latest else []
    words += ["feedback"] if edge.feedback else []
    return f" ({', '.join(words)})" if words else ""


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(label: str) -> str:
    return f'"{_escaped(label)}"'
