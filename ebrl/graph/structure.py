"""Rules on the graph as a whole: what may form a cycle, that something is trained, that replicas have work."""

from __future__ import annotations

from collections.abc import Iterator

from ebrl.errors import Finding
from ebrl.graph.compile import cycle_text, stream_cycles
from ebrl.graph.draft import Draft


def starved_cycle(draft: Draft) -> Iterator[Finding]:
    """A cycle of streams holds a simulation: only a simulation acts before it received an item."""
    for members in stream_cycles(draft.graph):
        nodes = [node for name, node in draft.graph.nodes.items() if name in members]
        if not any(node.stage.kind == "simulation" for node in nodes):
            yield Finding(
                rule="starved-cycle",
                where=nodes[0].name,
                message=f"no first item ever enters the cycle {cycle_text(draft.graph, members, nodes[0].name)}",
                place=nodes[0].place,
                hint="only a simulation starts a cycle of streams by itself",
            )


def loop_member(draft: Draft) -> Iterator[Finding]:
    """The cycle of a simulation holds simulations and generations alone."""
    for members in stream_cycles(draft.graph):
        nodes = [node for name, node in draft.graph.nodes.items() if name in members]
        if not any(node.stage.kind == "simulation" for node in nodes):
            continue
        for node in nodes:
            if node.stage.kind in ("training", "stage"):
                hint = "put the stage behind the loop, on trajectories"
                if node.stage.kind == "training":
                    hint = "weights travel over `ebrl.latest(ebrl.Weights)`, which never blocks"
                text = cycle_text(draft.graph, members, node.name)
                message = f"a {node.stage.kind} cannot be part of the rollout loop {text}"
                yield Finding(rule="loop-member", where=node.name, message=message, place=node.place, hint=hint)


def open_simulation(draft: Draft) -> Iterator[Finding]:
    """The actions of a simulation come from its own observations."""
    resident = {name for members in stream_cycles(draft.graph) for name in members}
    for node in draft.graph.of_kind("simulation"):
        fed = any(True for _ in draft.graph.inputs(node.name))
        if fed and node.name not in resident:
            yield Finding(
                rule="open-simulation",
                where=node.name,
                message="its actions do not come from its own observations over streams",
                place=node.place,
                hint="feed `actions = ebrl.stream(ebrl.ActionChunk)` from a generation that reads the observations",
            )


def one_training(draft: Draft) -> Iterator[Finding]:
    """A workflow has one training stage."""
    nodes = draft.graph.of_kind("training")
    if not nodes:
        yield Finding(
            rule="no-training",
            where=draft.graph.name,
            message="the workflow has no training stage",
            place=draft.graph.place,
            hint="call a stage decorated with @ebrl.training",
        )
    for node in nodes[1:]:
        yield Finding(
            rule="several-trainings",
            where=node.name,
            message=f"the workflow has a training stage already: {nodes[0].name!r} at {nodes[0].place}",
            place=node.place,
            hint="one workflow trains one policy; make a second workflow",
        )


def idle_replica(draft: Draft) -> Iterator[Finding]:
    """Every replica of a simulation has an environment, and a trajectory window in every iteration."""
    for node in draft.graph.of_kind("simulation"):
        bounds = [(int(node.options["num_envs"]), "num_envs", "a replica without an environment has nothing to do")]
        for trainer in draft.graph.of_kind("training"):
            if (batch := trainer.options["batch"]) is not None:
                bounds.append((batch, f"batch of {trainer.name}", "every replica gives at least one window per batch"))
        for bound, name, why in bounds:
            if node.options["replicas"] > bound:
                yield Finding(
                    rule="idle-replica",
                    where=f"{node.name}.replicas",
                    message=f"replicas={node.options['replicas']} is more than {name}={bound}: {why}",
                    place=node.place,
                    hint=f"at most replicas={bound}",
                )
