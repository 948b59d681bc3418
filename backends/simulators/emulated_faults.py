"""Faults that an emulated environment injects into itself. Standard library, numpy."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebrl.errors import UsageError, did_you_mean

KINDS = ("raise", "exit", "segfault", "hang", "leak", "nan")
CALLS = ("start", "reset", "step", "close")
_FORM = re.compile(r"(?P<kind>\w+)@(?P<call>\w+)(:(?P<at>\d+)(?P<on>\+)?)?(\*(?P<probability>[\d.eE-]+))?")
_HINT = "write kind@call, kind@call:n, kind@call:n+ or any of them with *probability, for example raise@step:7*0.1"


class EmulatedFault(Exception):
    """What the fault ``raise`` raises."""


@dataclass(frozen=True)
class Fault:
    """One entry of the option `faults`."""

    kind: str
    call: str
    first: int
    last: float
    probability: float
    text: str

    def strikes(self, call: str, number: int, seed: Sequence[int]) -> bool:
        """Whether it happens in call `number` (from 1); chance comes from `seed`."""
        if call != self.call or not self.first <= number <= self.last:
            return False
        return self.probability >= 1.0 or np.random.default_rng(seed).uniform() < self.probability


def parse(text: str | Sequence[str]) -> tuple[Fault, ...]:
    """``"raise@step:7, hang@reset:20+*0.5"`` as faults. Raises UsageError for what cannot be read."""
    parts = [part.strip() for part in text.split(",")] if isinstance(text, str) else list(text)
    return tuple(_fault(part) for part in parts if part)


def _fault(text: str) -> Fault:
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"the fault {text!r} cannot be read", hint=_HINT)
    kind, call = match["kind"], match["call"]
    if kind not in KINDS:
        raise UsageError(f"no fault is named {kind!r}", hint=did_you_mean(kind, KINDS))
    if call not in CALLS:
        raise UsageError(f"the fault {text!r} strikes in no call named {call!r}", hint=did_you_mean(call, CALLS))
    if kind == "nan" and call not in ("reset", "step"):
        raise UsageError(f"the fault {text!r} cannot strike: only reset and step show numbers")
    try:
        probability = float(match["probability"] or 1.0)
    except ValueError:
        raise UsageError(f"the fault {text!r} cannot be read", hint=_HINT) from None
    if not 0 <= probability <= 1 or (probability < 1 and call in ("start", "close")):
        raise UsageError(
            f"the fault {text!r} has a probability that cannot be drawn",
            hint="0 to 1; start and close have no seed, so only 1 there",
        )
    first = int(match["at"] or 1)
    last = float("inf") if match["on"] or not match["at"] else first
    return Fault(kind, call, first, last, probability, text)


def strike(fault: Fault, leak_mib: float) -> None:
    """Do what its kind says; ``nan`` is up to whoever makes the observation."""
    if fault.kind == "raise":
        raise EmulatedFault(f"injected: {fault.text}")
    if fault.kind == "exit":
        os._exit(1)
    if fault.kind == "segfault":
        ctypes.string_at(0)
    if fault.kind == "leak":
        _leaked.append(np.ones(int(leak_mib * 2**20), np.uint8))  # ones: what nobody wrote to is not resident
    while fault.kind == "hang":
        time.sleep(1000.0)


_leaked: list[np.ndarray] = []
