"""Rules on the stage functions themselves: annotations, and the signature that each kind needs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ebrl.errors import Finding
from ebrl.graph.draft import Draft, engine_options
from ebrl.graph.items import ActionChunk, Observation, Step, Weights
from ebrl.graph.model import StageDefinition
from ebrl.graph.ports import MISSING, assignable, output_ports
from ebrl.graph.stage import type_hints

_EXPECTED = {
    "simulation": "def simulate(env: Simulator, chunk: ActionChunk) -> Iterator[Step]",
    "generation": "def generate(policy: Policy, observations: Batch[Observation], weights: Weights)"
    " -> Batch[ActionChunk]",
    "training": "def train(policy: Policy, trajectories: Batch[Trajectory]) -> Weights",
    "stage": "def relabel(trajectory: Trajectory) -> Trajectory",
}


def definitions(draft: Draft) -> list[StageDefinition]:
    """Each stage function of the workflow once, ports as declared."""
    found = {id(definition.function): definition for definition in draft.definitions.values()}
    return list(found.values())


def unannotated(draft: Draft) -> Iterator[Finding]:
    """Every parameter without a default, and the return value, has a type."""
    for stage in definitions(draft):
        hints = type_hints(stage.function)
        for parameter in inspect.signature(stage.function).parameters.values():
            variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if parameter.name not in hints and parameter.default is MISSING and not variadic:
                yield Finding(
                    rule="unannotated",
                    where=f"{stage.name}.{parameter.name}",
                    message="the parameter has no annotation",
                    place=stage.place,
                    hint=f"a {stage.kind} looks like `{_EXPECTED[stage.kind]}`",
                )
        if "return" not in hints:
            yield Finding(
                rule="unannotated",
                where=f"{stage.name}.return",
                message="the return value has no annotation",
                place=stage.place,
                hint="write `-> None` where the stage gives nothing",
            )


def signature(draft: Draft) -> Iterator[Finding]:
    """The parameters and the return value are those of the stage's kind."""
    checks = {"simulation": _simulation, "generation": _generation, "training": _training, "stage": _stage}
    for stage in definitions(draft):
        if any(port.type is MISSING for port in (*stage.inputs, *stage.outputs)):
            continue  # `unannotated` has named them
        for message in [*_any_kind(stage), *checks[stage.kind](stage)]:
            yield Finding(
                rule="signature",
                where=stage.name,
                message=message,
                place=stage.place,
                hint=f"a {stage.kind} looks like `{_EXPECTED[stage.kind]}`",
            )


def _any_kind(stage: StageDefinition) -> Iterator[str]:
    options = engine_options(stage)
    for parameter in inspect.signature(stage.function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"takes {parameter}, so its ports cannot be known"
        if parameter.name in options:
            yield f"its parameter {parameter.name!r} has the name of an engine option of every {stage.kind}"
    if inspect.iscoroutinefunction(stage.function) or inspect.isasyncgenfunction(stage.function):
        yield "is an `async def`; stages are plain functions"
    gives_several = any(port.batched for port in stage.outputs)
    if inspect.isgeneratorfunction(stage.function) and not gives_several and "return" in type_hints(stage.function):
        yield "yields, so its return type must be Iterator[...]"


def _roles(stage: StageDefinition, role: str) -> int:
    return list(stage.roles.values()).count(role)


def _simulation(stage: StageDefinition) -> Iterator[str]:
    if (count := _roles(stage, "simulator")) != 1:
        yield f"a simulation takes one Simulator, this one takes {count or 'none'}"
    for name, role in stage.roles.items():
        if role != "simulator":
            yield f"a simulation runs in the process of its environment and takes no {role.title()}, as {name!r} is"
    actions = [port for port in stage.inputs if not port.batched and assignable(ActionChunk, port.item)]
    if len(actions) != 1 or len(stage.inputs) != 1:
        names = ", ".join(port.name for port in stage.inputs) or "none"
        yield f"a simulation takes one ActionChunk and no other item, this one takes {names}"
    returned = type_hints(stage.function).get("return", MISSING)
    outputs = output_ports(returned)
    if returned is not MISSING and not (len(outputs) == 1 and outputs[0].batched and assignable(outputs[0].item, Step)):
        yield "a simulation returns Iterator[Step]"


def _generation(stage: StageDefinition) -> Iterator[str]:
    if (count := _roles(stage, "policy")) != 1:
        yield f"a generation takes one Policy, this one takes {count or 'none'}"
    observed = [port for port in stage.inputs if port.batched and assignable(Observation, port.item)]
    if len(observed) != 1:
        yield f"a generation takes one Batch[Observation], this one takes {len(observed) or 'none'}"
    weights = [port for port in stage.inputs if port.item is Weights]
    others = [port.name for port in stage.inputs if port not in observed and port not in weights]
    if others and len(observed) == 1:
        yield f"a generation takes observations and weights only, this one also takes {', '.join(others)}"
    if len(weights) > 1:
        yield "a generation takes one Weights at most"
    if not _gives(stage, ActionChunk, batched=True):
        yield "a generation returns Batch[ActionChunk]"


def _training(stage: StageDefinition) -> Iterator[str]:
    if (count := _roles(stage, "policy")) != 1:
        yield f"a training takes one Policy, this one takes {count or 'none'}"
    if not any(port.batched for port in stage.inputs):
        yield "a training takes its items at once, as Batch[Trajectory]"
    if not _gives(stage, Weights, batched=False):
        yield "a training returns Weights"


def _stage(stage: StageDefinition) -> Iterator[str]:
    if _roles(stage, "simulator"):
        yield "a plain stage takes no Simulator; for environments of its own it takes Environments"
    for role in ("policy", "environments"):
        if (count := _roles(stage, role)) > 1:
            yield f"a stage takes one {role.title()} at most, this one takes {count}"


def _gives(stage: StageDefinition, item: type, *, batched: bool) -> bool:
    if len(stage.outputs) != 1:
        return False
    port = stage.outputs[0]
    return port.type is MISSING or (port.batched == batched and assignable(port.item, item))
