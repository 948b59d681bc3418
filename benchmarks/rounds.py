"""Rounds: variants measured in turn, A B C A B C, each repetition in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULT = "RESULT "
"""Begins the line on which a repetition says what it measured."""


class RepetitionFailed(Exception):
    """A repetition ended without a result; the message ends with its last words."""


def interleaved(
    variants: Sequence[str], repetitions: int, measure: Callable[[str, int], dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Results by variant, one for each repetition; `measure` gets the variant and the repetition's number."""
    results: dict[str, list[dict[str, Any]]] = {variant: [] for variant in variants}
    for repetition in range(repetitions):
        for variant in variants:
            results[variant].append(measure(variant, repetition))
    return results


def in_fresh_process(script: Path, order: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
    """Run ``python SCRIPT ORDER`` and return what it passed to `answer`; raises RepetitionFailed."""
    process = subprocess.Popen(
        [sys.executable, str(script), json.dumps(order)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        output, errors = "", f"no result within {timeout_s:g} s"
    finally:
        # Also what a repetition has left behind: it would slow the next one down.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for line in reversed(output.splitlines()):
        if line.startswith(RESULT):
            result: dict[str, Any] = json.loads(line.removeprefix(RESULT))
            return result
    raise RepetitionFailed(f"{script.name} {json.dumps(order)}: exit code {process.returncode}\n{errors[-3000:]}")


def answer(result: Mapping[str, Any]) -> None:
    """Called by the repetition, once."""
    print(RESULT + json.dumps(result), flush=True)
