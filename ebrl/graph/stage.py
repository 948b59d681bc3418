"""The decorators that make stages of plain functions."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import attrs

from ebrl.errors import UsageError, did_you_mean
from ebrl.graph import draft
from ebrl.graph.items import Observation, Trajectory
from ebrl.graph.model import Port, Resources, StageDefinition
from ebrl.graph.ports import MISSING, injected, input_port, output_ports
from ebrl.graph.source import caller_place, function_place

_SIMULATION_OUTPUTS = (
    Port(name="observations", type=Observation, item=Observation, batched=True),
    Port(name="trajectories", type=Trajectory, item=Trajectory, batched=True),
)


class Stage:
    """A decorated function. In a workflow function a call adds a node; anywhere else it just runs."""

    __name__: str
    __doc__: str | None

    def __init__(self, kind: str, function: Callable[..., Any], resources: Resources) -> None:
        functools.update_wrapper(self, function)
        self.kind = kind
        self.function = function
        self.resources = resources
        self.place = function_place(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (building := draft.current.get()) is None:
            return self.function(*args, **kwargs)
        return building.add(self.definition, args, kwargs, caller_place())

    def __repr__(self) -> str:
        return f"<{self.kind} {self.__name__} at {self.place}>"

    @functools.cached_property
    def definition(self) -> StageDefinition:
        """Ports and settings. Read at the first call, when every name in the annotations exists."""
        hints = type_hints(self.function)
        inputs, settings, roles = [], {}, {}
        for parameter in inspect.signature(self.function).parameters.values():
            annotation = hints.get(parameter.name, MISSING)
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            port = input_port(parameter.name, annotation, parameter.default)
            needs_edge = parameter.default is MISSING and parameter.kind is not parameter.KEYWORD_ONLY
            if (role := injected(annotation)) is not None:
                settings[parameter.name], roles[parameter.name] = annotation, role
            elif needs_edge or draft.is_item(port):
                inputs.append(port)
            else:
                settings[parameter.name] = annotation
        is_simulation = self.kind == "simulation"
        return StageDefinition(
            name=self.__name__,
            kind=self.kind,
            function=self.function,
            inputs=tuple(inputs),
            outputs=_SIMULATION_OUTPUTS if is_simulation else output_ports(hints.get("return", MISSING)),
            settings=settings,
            roles=roles,
            resources=self.resources,
            place=self.place,
        )


def type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations by parameter (and ``return``), names resolved; UsageError where a name does not exist."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise UsageError(
            f"its annotations cannot be read: {type(error).__name__}: {error}",
            where=function.__name__,
            place=function_place(function),
            hint="import the name at module level, outside `if TYPE_CHECKING:`",
        ) from error


def simulation(function: Callable[..., Any] | None = None, **resources: float) -> Any:
    """Make a simulation of ``(env: Simulator, chunk: ActionChunk) -> Iterator[Step]``; every yield is a step boundary.

    In a workflow it is called with a simulator and an edge of actions, and gives observations and
    trajectories. Resources: cpus, gpus, memory_mib.
    """
    return _decorate("simulation", function, resources)


def generation(function: Callable[..., Any] | None = None, **resources: float) -> Any:
    """Make a generation of ``(policy: Policy, observations: Batch[Observation]) -> Batch[ActionChunk]``.

    With a further parameter of type `Weights` the engine keeps the policy at the newest weights.
    Resources: cpus, gpus, memory_mib.
    """
    return _decorate("generation", function, resources)


def training(function: Callable[..., Any] | None = None, **resources: float) -> Any:
    """Make a training of ``(policy: Policy, trajectories: Batch[Trajectory]) -> Weights``: one call per iteration.

    A parameter of type `State` keeps optimisers and counters. Resources: cpus, gpus, memory_mib.
    """
    return _decorate("training", function, resources)


def stage(function: Callable[..., Any] | None = None, **resources: float) -> Any:
    """Make a stage of any typed function: one item in, one item out.

    ``Optional[T]`` out: None drops the item; ``Iterator[T]`` out: several items; ``Batch[T]`` in: all
    items of an iteration at once. Resources: cpus, gpus, memory_mib.
    """
    return _decorate("stage", function, resources)


def _decorate(kind: str, function: Callable[..., Any] | None, resources: dict[str, float]) -> Any:
    where = caller_place(2)
    asked = _resources(kind, resources, where)
    if function is None:
        return lambda decorated: _decorated(kind, decorated, asked, where)
    return _decorated(kind, function, asked, where)


def _decorated(kind: str, function: Any, resources: Resources, where: str) -> Stage:
    if not inspect.isfunction(function):
        raise UsageError(
            f"@ebrl.{kind} takes a function, got {type(function).__name__}",
            place=where,
            hint="resources are given by name: @ebrl.training(gpus=1)",
        )
    return Stage(kind, function, resources)


def _resources(kind: str, asked: dict[str, float], where: str) -> Resources:
    known = [field.name for field in attrs.fields(Resources)]
    for name, amount in asked.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise UsageError(f"@ebrl.{kind} knows no resource {name!r}", place=where, hint=hint)
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not amount > 0:
            raise UsageError(
                f"@ebrl.{kind} needs {name} above 0, got {amount!r}",
                place=where,
                hint=f"leave {name} out to let the planner choose",
            )
    return Resources(**asked)  # type: ignore[arg-type]
