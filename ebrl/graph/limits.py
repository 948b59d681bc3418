"""Rules on what is sound in itself, but what the engine cannot run yet: it would miss items, wait or crash.

A rule leaves this file when the runtime learns what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import networkx as nx

from ebrl.errors import Finding
from ebrl.graph.compile import stream_cycles, stream_network
from ebrl.graph.draft import Draft, Output
from ebrl.graph.items import Trajectory
from ebrl.graph.model import Edge, Node, PolicyRef, Port
from ebrl.graph.ports import assignable, type_name


def one_simulation(draft: Draft) -> Iterator[Finding]:
    """A workflow has one simulation."""
    nodes = draft.graph.of_kind("simulation")
    if not nodes:
        yield Finding(
            rule="no-simulation",
            where=draft.graph.name,
            message="the workflow has no simulation",
            place=draft.graph.place,
            hint="call a stage decorated with @ebrl.simulation; data from elsewhere cannot start a run yet",
        )
    for node in nodes[1:]:
        message = f"one simulation per workflow for now, and there is {nodes[0].name!r} at {nodes[0].place} already"
        yield _finding(node, "several-simulations", message, "make one workflow per simulator")


def generation_outside_loop(draft: Draft) -> Iterator[Finding]:
    """A generation acts for the simulation whose observations it reads."""
    resident = _resident(draft)
    for node in draft.graph.of_kind("generation"):
        sources = [edge for edge in draft.graph.inputs(node.name) if not edge.latest]
        if node.name not in resident or not all(_is_observations(draft, edge) for edge in sources):
            message = "its actions do not go to the simulation whose observations it reads"
            hint = "pass it `observations` of the simulation, and feed its actions to that simulation over a stream"
            yield _finding(node, "generation-outside-loop", message, hint)


def frozen_generation(draft: Draft) -> Iterator[Finding]:
    """A generation acts with the weights that training publishes."""
    for node in draft.graph.of_kind("generation"):
        if not any(edge.latest for edge in draft.graph.inputs(node.name)):
            message = "it reads no weights, and a policy that stays as it is cannot be run yet"
            hint = "give it a parameter `weights: ebrl.Weights` and pass `weights = ebrl.latest(ebrl.Weights)`"
            yield _finding(node, "frozen-generation", message, hint)


def observations_outside_loop(draft: Draft) -> Iterator[Finding]:
    """Only the rollout loop sees single observations."""
    for edge in draft.graph.edges:
        node = draft.graph.nodes[edge.target]
        if _is_observations(draft, edge) and node.stage.kind != "generation":
            message = f"reads {edge.source}.{edge.output}, which do not leave the rollout loop yet"
            hint = "read trajectories: they hold the observations before and after every chunk"
            yield _finding(node, "observations-outside-loop", message, hint, edge)


def several_outputs(draft: Draft) -> Iterator[Finding]:
    """What other stages read comes from the one output of a stage."""
    for node in draft.graph.nodes.values():
        if node.stage.kind == "simulation" or len(node.stage.outputs) < 2:
            continue
        for edge in list(draft.graph.outputs(node.name))[:1]:
            message = f"{edge.target!r} reads one of its {len(node.stage.outputs)} outputs; only one output for now"
            hint = "return one item that holds both, or make one stage per output"
            yield _finding(node, "several-outputs", message, hint)


def register_of_weights(draft: Draft) -> Iterator[Finding]:
    """A register holds the weights that training gives."""
    for declared in draft.declared:
        for output, place in declared.feeds:
            if declared.latest and isinstance(output, Output) and draft.definitions[output.node].kind != "training":
                yield Finding(
                    rule="register-of-weights",
                    where=declared.name,
                    message=f"a register holds the weights of the training stage only for now, this one is fed by "
                    f"{output.node!r}",
                    place=place,
                    hint=f"declare `{declared.name} = ebrl.stream({type_name(declared.type)})`",
                )


def stream_of_weights(draft: Draft) -> Iterator[Finding]:
    """Weights leave the training stage through a register."""
    for edge in draft.graph.edges:
        source, node = draft.graph.nodes[edge.source], draft.graph.nodes[edge.target]
        if source.stage.kind == "training" and not edge.latest:
            message = f"reads the weights of {source.name!r} over a stream, and would never be called"
            hint = f"declare `weights = ebrl.latest(ebrl.Weights)`, feed it with `weights <<= {source.stage.name}(...)`"
            yield _finding(node, "stream-of-weights", message, hint, edge)


def stage_without_input(draft: Draft) -> Iterator[Finding]:
    """A stage is called when items arrive, so it reads an edge; the training reads a stream."""
    for node in draft.graph.nodes.values():
        edges = list(draft.graph.inputs(node.name))
        if node.stage.kind == "stage" and not edges:
            message = "reads no edge, so nothing says when to call it"
            hint = "pass it the output of a stage, such as trajectories or weights; sources are not supported yet"
            yield _finding(node, "stage-without-input", message, hint)
        elif node.stage.kind == "training" and all(edge.latest for edge in edges):
            message = "reads no stream, so there is nothing to train on"
            yield _finding(node, "stage-without-input", message, "pass it the trajectories of the simulation")


def judge_with_output(draft: Draft) -> Iterator[Finding]:
    """A stage that reads registers only, such as an evaluation, gives nothing to other stages."""
    for node in draft.graph.of_kind("stage"):
        edges, readers = list(draft.graph.inputs(node.name)), list(draft.graph.outputs(node.name))
        if edges and readers and all(edge.latest for edge in edges):
            message = f"reads weights alone and is called beside the iterations, so {readers[0].target!r} gets no items"
            yield _finding(node, "judge-with-output", message, "pass it a stream too, such as the trajectories")


def skipped_iterations(draft: Draft) -> Iterator[Finding]:
    """A stage on the way to training is called in every iteration."""
    streams = stream_network(draft.graph)
    trainers = draft.graph.of_kind("training")
    for node in draft.graph.of_kind("stage"):
        every = node.options["every"]
        if every > 1 and any(nx.has_path(streams, node.name, trainer.name) for trainer in trainers):
            message = f"every={every} leaves {trainers[0].name!r} without items in all other iterations"
            yield _finding(node, "skipped-iterations", message, "leave `every` out, or drop items in the stage")


def item_ports(draft: Draft) -> Iterator[Finding]:
    """A stage takes one stream item by item; further streams come as a batch."""
    for node in draft.graph.of_kind("stage"):
        single = [edge for edge in draft.graph.inputs(node.name) if not edge.latest and not _port(node, edge).batched]
        for edge in single[1:]:
            message = f"a second stream item by item, beside {single[0].input!r}; nothing pairs their items"
            item = type_name(_port(node, edge).item)
            yield _finding(node, "item-ports", message, f"annotate it `Batch[{item}]`: all items of an iteration", edge)


def training_items(draft: Draft) -> Iterator[Finding]:
    """A training reads trajectories: they carry the versions that staleness is counted from."""
    for node in draft.graph.of_kind("training"):
        for edge in draft.graph.inputs(node.name):
            port, source = _port(node, edge), draft.graph.nodes[edge.source]
            item = next(output.item for output in source.stage.outputs if output.name == edge.output)
            if not edge.latest and not (port.batched and assignable(item, Trajectory)):
                got = type_name(port.type)
                message = f"a training reads streams as Batch[Trajectory] only for now, this port is {got}"
                hint = "put other data into the trajectories, for example into their rewards, in a stage before"
                yield _finding(node, "training-items", message, hint, edge)


def mismatched_policies(draft: Draft) -> Iterator[Finding]:
    """Weights go to a policy that is declared like the one they were trained in."""
    for trainer in draft.graph.of_kind("training"):
        trained = trainer.reference(PolicyRef)
        for node in draft.graph.of_kind("generation"):
            acting = node.reference(PolicyRef)
            reads = any(edge.source == trainer.name for edge in draft.graph.inputs(node.name))
            if not reads or trained is None or acting is None or _equal(acting[1], trained[1]):
                continue
            place = draft.reference_places.get(id(trained[1]), trainer.place)
            yield Finding(
                rule="mismatched-policies",
                where=f"{node.name}.{acting[0]}",
                message=f"takes the weights of {trainer.name!r}, which trains another policy",
                place=draft.reference_places.get(id(acting[1]), node.place),
                hint=f"pass the policy of {place} to both",
            )


def _finding(node: Node, rule: str, message: str, hint: str, edge: Edge | None = None) -> Finding:
    where, place = (node.name, node.place) if edge is None else (f"{node.name}.{edge.input}", edge.place or node.place)
    return Finding(rule=rule, where=where, message=message, place=place, hint=hint)


def _resident(draft: Draft) -> set[str]:
    return {name for members in stream_cycles(draft.graph) for name in members}


def _is_observations(draft: Draft, edge: Edge) -> bool:
    return draft.graph.nodes[edge.source].stage.kind == "simulation" and edge.output == "observations"


def _port(node: Node, edge: Edge) -> Port:
    return next(port for port in node.stage.inputs if port.name == edge.input)


def _equal(one: PolicyRef, other: PolicyRef) -> bool:
    try:
        return one is other or one == other
    except ValueError:  # arrays among the options give no single answer
        return True


LIMIT_RULES: tuple[Callable[[Draft], Iterator[Finding]], ...] = (
    generation_outside_loop,
    frozen_generation,
    observations_outside_loop,
    several_outputs,
    register_of_weights,
    stream_of_weights,
    stage_without_input,
    judge_with_output,
    skipped_iterations,
    item_ports,
    training_items,
    mismatched_policies,
)
