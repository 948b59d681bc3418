"""Birth: from the order that an environment process was given to its simulator. Standard library only,
Python 3.8 on."""

from __future__ import annotations

import gc
import importlib
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from ebrl.backends.protocols import Simulator, SimulatorSpec
from ebrl.graph.items import ActionChunk, Step
from ebrl.runtime.contract import check_spec, kind
from ebrl.runtime.failure import ContractError, describe


def execute(env: Simulator, chunk: ActionChunk) -> Iterator[Step]:
    """What the ready-made stage `ebrl.stages.simulate` does, without the engine that a decorator needs."""
    for action in chunk:
        yield env.step(action)


class Birth:
    """Three steps, in this order; a process that others are forked from may take them for its children."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.import_s: float | None = None
        """How long the simulator took to import, where its adapter can say so (`warm`)."""
        self.program: Callable[[Simulator, ActionChunk], Iterator[Step]]
        self._factory: Any = None
        self._simulator: Simulator | None = None

    def load(self) -> None:
        """Import the adapter and the simulation stage."""
        if self._factory is None:
            sys.path += [path for path in self.order["path"] if path not in sys.path]  # last, as `search_last`
            self.program = _load(self.order["program"])
            self._factory = _load(self.order["factory"])

    @property
    def fork_safe(self) -> bool | None:
        """What the adapter says of forking; None where it says nothing."""
        return _hook(self._factory, "fork_safe")  # type: ignore[no-any-return]

    def warm(self) -> None:
        """Import the simulator, where the adapter can do that apart from building it."""
        began = time.perf_counter()
        if self.import_s is None and (warm := _hook(self._factory, "warm")) is not None:
            warm()
            self.import_s = time.perf_counter() - began

    def build(self) -> Simulator:
        """The simulator."""
        if self._simulator is None:
            simulator = self._called(self._options())
            if simulator is None or not isinstance(getattr(simulator, "spec", None), SimulatorSpec):
                raise ContractError(
                    f"the factory of {self.order['name']} returned {kind(simulator)}; expected a Simulator with a "
                    "`spec` of type SimulatorSpec"
                )
            check_spec(simulator.spec)
            self._simulator = simulator
            # What a simulator builds stays: the collector need not walk through it again and again.
            gc.collect()
            gc.freeze()
        return self._simulator

    def failure(self, error: BaseException) -> dict[str, Any]:
        """`error` as plain data; where a package is missing, with the way out."""
        failure = describe(error)
        remedy = self.order["remedy"]
        if remedy and (isinstance(error, ImportError) or isinstance(error.__cause__, ImportError)):
            failure["hint"], failure["exit_code"] = remedy, 2
            if isinstance(error, ImportError):
                failure["message"] = f"the simulator cannot be imported in this interpreter: {error}"
        return failure

    def _called(self, options: dict[str, Any]) -> Any:
        try:
            return self._factory(self.order["target"], **options)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            # It was raised by the call itself.
            raise ContractError(f"its factory does not take the target and these options: {error}") from None

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = pickle.loads(self.order["options"])
        return options


def _hook(factory: Any, name: str) -> Any:
    """What an adapter says beside the simulator protocol: an attribute of its class, or else of its module."""

    if (found := getattr(factory, name, None)) is not None:
        return found
    return getattr(sys.modules.get(getattr(factory, "__module__", "")), name, None)


def _load(reference: dict[str, str]) -> Any:
    """Code by importable name, or as pickled bytes (stage functions, which may live in a workflow file)."""
    if "pickle" in reference:
        return pickle.loads(bytes.fromhex(reference["pickle"]))
    found: Any = importlib.import_module(reference["module"])
    for part in reference["name"].split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ContractError(f"{reference['module']} has no {reference['name']!r}") from None
    return found
