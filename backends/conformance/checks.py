"""The checks by name, in the order in which they are run. Standard library only."""

from __future__ import annotations

from collections.abc import Callable

from ebrl.backends.conformance import declared, episodes, process
from ebrl.backends.conformance.subject import Subject


class Check:
    """One rule. Raises Violation where it is broken, NotApplicable where it says nothing about a simulator."""

    def __init__(self, function: Callable[[Subject], None]) -> None:
        self._function = function
        self.name = function.__name__.replace("_", "-")
        self.rule = (function.__doc__ or "").strip()
        """What it demands, as a sentence."""

    def __call__(self, subject: Subject) -> None:
        self._function(subject)

    def __repr__(self) -> str:
        return self.name


CHECKS: tuple[Check, ...] = (
    Check(declared.spec),
    Check(declared.reset),
    Check(declared.step),
    Check(declared.ranges),
    Check(declared.reward),
    Check(declared.success),
    Check(episodes.seeding),
    Check(episodes.second_simulator),
    Check(episodes.other_seeds),
    Check(episodes.own_arrays),
    Check(episodes.time_limit),
    Check(episodes.reset_in_mid_episode),
    Check(episodes.clipping),
    Check(process.render),
    Check(process.close_twice),
    Check(process.standard_output),
    Check(process.standard_input),
    Check(process.signal_handlers),
    Check(process.working_folder),
)
"""All of them."""
