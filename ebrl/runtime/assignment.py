"""Assignment: what a Dask worker must know to become one replica of a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import cloudpickle

from ebrl.backends.protocols import Share, SimulatorSpec
from ebrl.backends.registry import announce
from ebrl.graph.model import Node, SimulatorRef
from ebrl.graph.plan import StagePlan
from ebrl.resources.gpus import Gpu
from ebrl.runtime import birth


@attrs.define(frozen=True, kw_only=True)
class Assignment:
    """Travels with every task, so that a worker that was replaced can take over from any of them."""

    run: str
    """Identifies the run; channels are named after it."""
    label: str = ""
    """Prefix of worker names and task keys, where runs share a scheduler."""
    stage: StagePlan
    replica: int
    packed_node: bytes
    """The `Node`, pickled: user code is unpacked where its errors can be reported."""
    packed_program: bytes
    """What environment processes run for every chunk: the workflow's simulation stage, see `program`."""
    source_file: str
    """Where the node's function was written."""
    seed: int
    chunk: int
    request_size: int
    """Observations that one generation call takes at most."""
    max_staleness: int
    step_barrier: bool
    groups: int
    rebinding: bool
    path: Sequence[str] = ()
    """Folders to import user modules from."""
    backends: Mapping[str, Mapping[str, tuple[str, str]]] = attrs.field(factory=dict)
    """Those that the workflow's modules registered, see `ebrl.backends.registry.announce`."""
    log_folder: str | None = None
    shares: Sequence[tuple[Gpu, Share]] = ()
    """What this replica has of which device; none where the plan does not divide them."""
    sources: Mapping[str, bool] = attrs.field(factory=dict)
    """Of a generation stage: the workers whose observations it serves, and whether they run on another node."""
    spec: SimulatorSpec | None = None
    """What the simulators of the workflow declare, once known."""
    restored: Mapping[str, Any] = attrs.field(factory=dict)
    """What a checkpoint kept of this stage: ``iteration``, and ``state`` or ``positions``."""

    @property
    def worker(self) -> str:
        """The replica's name: ``<stage>-<replica>``."""
        return f"{self.stage.name}-{self.replica}"

    @property
    def tag(self) -> str:
        """Name of its Dask worker, and the resource that binds its tasks to that worker."""
        return self.label + self.worker

    @property
    def videos(self) -> Path | None:
        """Folder for films of episodes; None where this process cannot reach the run's directory."""
        if self.log_folder is None:
            return None
        folder = Path(self.log_folder).with_name("videos")
        # Two stages that film the same iteration must not overwrite one another.
        return folder if self.stage.name == "evaluate" else folder / self.stage.name

    @property
    def in_order(self) -> bool:
        """Whether results must not depend on timing."""
        return self.max_staleness == 0

    def node(self) -> Node:
        """A copy of the node for this process."""
        announce(self.backends)
        node: Node = cloudpickle.loads(self.packed_node)
        code = node.stage.function.__code__
        # Pickled code has lost its file, which tracebacks need.
        node.stage.function.__code__ = code.replace(co_filename=self.source_file)
        return node


_READY_MADE = ("ebrl.stages.simulate", "simulate")


def program(node: Node) -> Callable[[Any, Any], Iterator[Any]]:
    """(simulator, chunk) -> steps: the function of a simulation stage with the settings of its call.

    The ready-made stage's can be imported in every interpreter; others are pickled by value, see `by_value`.
    """
    found = node.reference(SimulatorRef)
    assert found is not None
    simulator, function, port = found[0], node.stage.function, node.stage.inputs[0].name
    if (function.__module__, function.__qualname__) == _READY_MADE:
        return birth.execute
    settings = {name: value for name, value in node.values.items() if name != simulator}

    def run(env: Any, chunk: Any) -> Iterator[Any]:
        steps: Iterator[Any] = function(**{simulator: env, port: chunk}, **settings)
        return steps

    return run


def by_value(packed_program: bytes) -> bool:
    """Whether pickled code holds byte code, which only the same minor version of Python can run."""
    return b"cloudpickle" in packed_program  # its functions rebuild what has no importable name
