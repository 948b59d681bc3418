"""Host: a stage's function with everything the engine fills in, in the process where it runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import attrs

from ebrl.backends.accelerators.choose import choose
from ebrl.backends.registry import load_policy
from ebrl.errors import EbrlError, StageError
from ebrl.graph.items import Batch, Weights
from ebrl.graph.model import Node, PolicyRef, SimulatorRef
from ebrl.graph.plan import Quota
from ebrl.graph.source import raised_by_engine, user_traceback
from ebrl.resources.affinity import bind
from ebrl.resources.resident import resident_mib
from ebrl.runtime.assignment import Assignment
from ebrl.runtime.failure import text_of
from ebrl.runtime.order import THREAD_POOLS
from ebrl.runtime.reporting import Report, State, collect


@attrs.define(frozen=True, kw_only=True)
class Calls:
    """Timed calls of one stage."""

    seconds: tuple[float, ...]
    """Of each call."""
    core_s: float
    """CPU time of one call, the mean."""
    memory_mib: float
    """Resident size of the process, or the peak on its device."""


class Host:
    """Calls one node's function: `call` takes what arrives on the ports, the rest is filled in here."""

    def __init__(self, assignment: Assignment, on_lost: Callable[[dict[str, Any]], None]) -> None:
        """`on_lost` hears of environments that the stage lost, if it has any."""
        self._on_lost = on_lost
        find_modules(assignment)
        self.assignment = assignment
        self.node: Node = assignment.node()
        self.policy: Any = None
        self.state = State()
        self.environments: Any = None
        self.weights: Weights | None = None
        self.barren = 0
        """Training iterations without a single item, one after the other."""
        self._filled: dict[str, Any] = {
            name: value for name, value in self.node.values.items() if not isinstance(value, (PolicyRef, SimulatorRef))
        }
        self._fill()
        self._bound = False
        self._use(assignment.stage.quota)
        for gpu, share in assignment.shares:
            if (accelerator := choose(gpu).accelerator) is not None:
                accelerator.apply(share)
        if "state" in assignment.restored:
            self.state.restore(assignment.restored["state"])
        self._weights_port = next((port.name for port in self.node.stage.inputs if port.item is Weights), None)

    def load(self, weights: Weights) -> None:
        """From now on `policy` acts with `weights`."""
        self.weights = weights
        if self.policy is not None:
            self.policy.load(weights.arrays)

    def prepare(self, weights: Weights) -> None:
        """Let `policy` bring `weights` near, in whatever thread; it acts with others meanwhile."""
        if (prepare := getattr(self.policy, "prepare", None)) is not None:
            prepare(weights.arrays)

    def call(self, **ports: Any) -> Any:
        """The function's result; what it raises becomes a StageError with its traceback.

        Errors that the engine raises inside it, such as SimulatorNotFound of its environments, stay what they are.
        """
        arguments = self._filled | self._named(ports)
        if self._weights_port is not None and self.weights is not None:
            arguments[self._weights_port] = self.weights
        try:
            result = self.node.stage.function(**arguments)
            # A generator runs here, where what it raises and reports belongs to its stage.
            return Batch(list(result)) if isinstance(result, Iterator) else result
        except BaseException as error:  # sys.exit() in a stage is an error of that stage
            if isinstance(error, EbrlError) and raised_by_engine(error):
                raise
            raise failure(self.node, error) from error

    def reported(self, **ports: Any) -> tuple[Any, Report]:
        """`call`, with what the function reported."""
        with collect() as report:
            result = self.call(**ports)
        return result, report

    def retune(self, assignment: Assignment) -> None:
        """Follow the quota of a new plan; for the thread that calls the function."""
        self.assignment = assignment
        self._use(assignment.stage.quota)

    def timed(
        self, call: Callable[[], Any], calls: int, threads: int, *, after: Callable[[], None] = lambda: None
    ) -> Calls:
        """Do `call` so many times with `threads` threads, and `after` each, untimed; the quota is what it was
        afterwards."""
        quota = self.assignment.stage.quota
        self._use(attrs.evolve(quota, threads=threads))
        seconds, core_s = [], 0.0
        try:
            for _ in range(calls):
                began_s, before_s = time.perf_counter(), time.process_time()
                call()
                seconds.append(time.perf_counter() - began_s)
                core_s += time.process_time() - before_s
                after()
        finally:
            self._use(quota)
        return Calls(seconds=tuple(seconds), core_s=core_s / calls, memory_mib=resident_mib(os.getpid()) or 0.0)

    def rewinding(self) -> Callable[[], None]:
        """What makes policy and state again what they are now."""
        weights = None if self.policy is None else deepcopy(self.policy.weights())
        state = deepcopy(self.state.save())

        def rewind() -> None:
            if weights is not None:
                self.policy.load(weights)
            self.state.rewind(state)

        return rewind

    def close(self) -> None:
        if self.environments is not None:
            self.environments.close()

    def _use(self, quota: Quota) -> None:
        """Size the thread pools of this process, also those of libraries that are already loaded, and keep it to
        its cores where the plan says so."""
        if quota.bound or self._bound:
            bind(os.getpid(), quota.cores)
        self._bound = quota.bound
        os.environ.update(dict.fromkeys(THREAD_POOLS, str(quota.threads)))
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(quota.threads)

    def _named(self, ports: dict[str, Any]) -> dict[str, Any]:
        """`observations` is the engine's word for the one port of that item, whatever the function calls it."""
        if "observations" in ports:
            name = next(port.name for port in self.node.stage.inputs if port.item is not Weights)
            ports[name] = ports.pop("observations")
        return ports

    def _fill(self) -> None:
        """Policy, environments and state, by annotation."""
        if (found := self.node.reference(PolicyRef)) is not None:
            assert self.assignment.spec is not None
            options = {"seed": self.assignment.seed, **found[1].options}
            self.policy = self._filled[found[0]] = load_policy(found[1].backend)(self.assignment.spec, **options)
        for name, role in self.node.stage.roles.items():
            if role == "state":
                self._filled[name] = self.state
            elif role == "environments":
                from ebrl.runtime.environments import Environments

                self.environments = self._filled[name] = Environments.of(self.assignment, self.node, self._on_lost)


def failure(node: Node, error: BaseException) -> StageError:
    """A user's exception as the error of its stage."""
    message = error.message if isinstance(error, EbrlError) else text_of(error)
    return StageError(message, where=node.name, place=node.place, detail=user_traceback(error))


def find_modules(assignment: Assignment) -> None:
    """Make the modules beside the workflow importable; they come last, so that none hides one that others need."""
    sys.path += [path for path in assignment.path if path not in sys.path]
