"""Exceptions as plain data, whatever they are."""

from __future__ import annotations

import os
import time
from itertools import pairwise

import pytest

from ebrl.errors import EbrlError
from ebrl.runtime.failure import ContractError, describe, printable
from ebrl.runtime.slots import Slots, anonymous_memory


def chained(errors: list[Exception]) -> Exception:
    for later, earlier in pairwise(errors):
        later.__context__ = earlier
    return errors[0]


def test_a_chain_that_returns_to_itself() -> None:
    first, second = RuntimeError("first"), RuntimeError("second")
    first.__context__, second.__context__ = second, first
    described = describe(first)
    assert "second" in described["message"] and "first" in described["message"]


def test_a_chain_without_an_end() -> None:
    began_s = time.monotonic()
    described = describe(chained([RuntimeError(str(number)) for number in range(20_000)]))
    assert described["message"].endswith("(then RuntimeError: 0)")
    assert time.monotonic() - began_s < 5.0


@pytest.mark.parametrize("kind", [RuntimeError, ContractError, EbrlError])
def test_what_travels_is_text_and_not_long(kind: type[Exception]) -> None:
    described = describe(kind("no file " + os.fsdecode(b"caf\xe9\x1b[2J\0") + "x" * 50_000_000))
    assert len(described["message"]) < 3_000
    assert "caf\\udce9\\x1b[2J\\x00" in described["message"]
    described["message"].encode()
    described["detail"].encode()


def test_printable_text_stays() -> None:
    assert printable("Übung:\n\tzwei") == "Übung:\n\tzwei"


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no sealed memory here")
def test_nobody_cuts_the_shared_memory() -> None:
    memory = anonymous_memory()
    Slots.create(memory, {"rows": 1, "chunk": 1, "size": 4096, "fields": {}})
    for size in (0, 8192):
        with pytest.raises(PermissionError):
            os.ftruncate(memory, size)
    os.close(memory)
