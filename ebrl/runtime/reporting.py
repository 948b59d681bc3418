"""What a stage may tell the run from inside its function: metrics, a wish to stop, state that is checkpointed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, TypeVar

import attrs

T = TypeVar("T")


@attrs.define
class Report:
    """What one stage call reported."""

    metrics: dict[str, float] = attrs.field(factory=dict)
    stop: str | None = None
    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    """Kind and data of what else happened, see `ebrl.observe.events`."""


_current: ContextVar[Report | None] = ContextVar("ebrl_report", default=None)


def report(**metrics: float) -> None:
    """Record metrics of this stage call; they appear as ``<stage>/<name>``. Outside a run: no effect."""
    if (current := _current.get()) is not None:
        current.metrics.update({name: float(value) for name, value in metrics.items()})


def stop(reason: str) -> None:
    """Ask the run to end in order after this iteration. Outside a run: no effect."""
    if (current := _current.get()) is not None:
        current.stop = str(reason)


def tell(kind: str, **data: Any) -> None:
    """Let the observers of the run hear of an event, once this stage call is over. Outside a run: no effect."""
    if (current := _current.get()) is not None:
        current.events.append((kind, data))


@contextmanager
def collect() -> Any:
    """Collect what is reported within the block."""
    token = _current.set(found := Report())
    try:
        yield found
    finally:
        _current.reset(token)


class State(dict[str, Any]):
    """What a stage keeps from one call to the next and finds again after a resume.

    Plain values are stored under their name. Objects with ``state_dict`` and ``load_state_dict``, such
    as optimisers, are made by `keep` and restored into the newly made object.
    """

    def __init__(self) -> None:
        super().__init__()
        self._restored: dict[str, Any] = {}

    def keep(self, name: str, make: Callable[[], T]) -> T:
        """The object under `name`; `make` builds it the first time in this process."""
        if name not in self:
            self[name] = made = make()
            if name in self._restored:
                made.load_state_dict(self._restored.pop(name))  # type: ignore[attr-defined]
        kept: T = self[name]
        return kept

    def save(self) -> dict[str, tuple[bool, Any]]:
        """name -> (made by `keep`, state_dict or value)."""
        waiting = {name: (True, value) for name, value in self._restored.items()}  # no call has asked for it yet
        return waiting | {
            name: (True, value.state_dict()) if hasattr(value, "state_dict") else (False, value)
            for name, value in self.items()
        }

    def rewind(self, saved: dict[str, tuple[bool, Any]]) -> None:
        """Be again as `save` said, with the objects that there are."""
        for name in set(self) - set(saved):
            del self[name]
        for name, (made, value) in deepcopy(saved).items():
            if not made:
                self[name] = value
            elif name in self:
                self[name].load_state_dict(value)
            else:
                self._restored[name] = value

    def restore(self, saved: dict[str, tuple[bool, Any]]) -> None:
        self.clear()
        self._restored = {name: value for name, (made, value) in saved.items() if made}
        self.update({name: value for name, (made, value) in saved.items() if not made})
