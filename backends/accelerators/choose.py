"""Which backend serves a device here: of all that are known, those that can, and of these the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebrl.backends.protocols import IMPOSSIBLE, LIVE, RESTART, Accelerator, Device, Unavailable
from ebrl.backends.registry import accelerator_names, load_accelerator

NONE = "none"
"""Name of the choice where nothing divides a device: shares are planned with, and kept by nobody."""


@dataclass(frozen=True)
class Choice:
    """What serves one device."""

    name: str
    """Of the backend, or `NONE`."""
    accelerator: Accelerator | None
    others: dict[str, Unavailable]
    """By name, why the other backends do not serve this device here."""

    @property
    def enforced(self) -> bool:
        return self.accelerator is not None and self.accelerator.enforced


def choose(
    device: Device | None,
    *,
    one_process: bool = False,
    names: Iterable[str] | None = None,
    load: Callable[[str], Callable[[], Accelerator]] = load_accelerator,
) -> Choice:
    """The backend that divides `device`; the CPU for None.

    one_process: the stages that share it run in one process. MPS then bounds them together and nothing keeps them
    apart but a green context; in processes of their own, no green context does. A MIG instance serves either as it is.

    Enforced ones come first, then those that change with least effort, then by name. Raises UsageError where a backend
    cannot be imported.
    """
    able: dict[str, Accelerator] = {}
    others: dict[str, Unavailable] = {}
    for name in accelerator_names() if names is None else names:
        accelerator = load(name)()
        if (lacks := accelerator.available(device) or _misfit(accelerator, one_process)) is None:
            able[name] = accelerator
        else:
            others[name] = lacks
    if not able:
        return Choice(NONE, None, others)
    best = min(able, key=lambda name: (*_rank(able[name], one_process), name))
    passed = {name: Unavailable(f"{best} serves it") for name in able if name != best}
    return Choice(best, able[best], others | passed)


def _misfit(accelerator: Accelerator, one_process: bool) -> Unavailable | None:
    if accelerator.within_process and not one_process:
        return Unavailable("it divides a device among stages of one process only")
    if one_process and not accelerator.within_process and accelerator.change == RESTART:
        return Unavailable("it does not tell the stages of one process apart")
    return None


def _rank(accelerator: Accelerator, one_process: bool) -> tuple[bool, bool, int]:
    effort = (LIVE, RESTART, IMPOSSIBLE).index(accelerator.change)
    return not accelerator.enforced, accelerator.within_process != one_process, effort
