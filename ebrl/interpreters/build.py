"""Builds the environment of a backend from its pins."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from ebrl.errors import EbrlError, UsageError
from ebrl.interpreters.pins import Pins
from ebrl.interpreters.python import find_python, starts, uv
from ebrl.interpreters.store import HOME, IsolatedEnvironment, Marker

_LAST_LINES = 15
_VERSIONS = """
import json, sys
from importlib.metadata import distributions
found = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"] not in ("pip", "setuptools")}
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "packages": dict(sorted(found.items()))}))
"""


Say = Callable[[str, bool], Any]
"""Hears (text, whether it is one of many lines that only pass by)."""


def create(backend: str, say: Say) -> Marker:
    """The environment of `backend`, which is built unless it is there as its pins want it.

    `say` hears of every step. UsageError for a backend that is unknown or has no pins, EbrlError with the last
    lines of the log where a step fails.
    """
    pins, environment = Pins.of(backend), IsolatedEnvironment(backend)
    if pins is None:
        raise UsageError(
            f"the backend {backend!r} ships no pins", hint="it runs in the interpreter that ebrl is installed in"
        )
    with environment.locked(lambda text: say(text, False)) as lock:
        marker, fault = environment.marker(), environment.fault()
        if marker is not None and not starts(str(environment.python)):
            fault = f"its interpreter does not start: {environment.python}"
        if marker is not None and not fault and marker.pins == pins.digest:
            say("it is there already", False)
            return marker
        if environment.folder.is_dir():
            what = "what an interrupted attempt left is removed" if marker is None else "its pins changed: made anew"
            say(f"{fault}: made anew" if fault else what, False)
            environment.remove()
        try:
            with open(environment.log, "w") as log:
                return _build(environment, pins, lambda command: _do(command, log, lock, say), say)
        except (OSError, subprocess.CalledProcessError) as error:
            raise EbrlError(
                f"the environment of {backend} cannot be made: {error}",
                hint=f"room in {environment.folder.parent}? {HOME} names another folder",
            ) from error


def _build(environment: IsolatedEnvironment, pins: Pins, do: Callable[[Sequence[str]], None], say: Say) -> Marker:
    base, tool = find_python(pins.pythons), uv()
    say(f"virtual environment of {base}", False)
    folder = str(environment.folder)
    do([tool, "venv", "--python", base, folder] if tool else [base, "-m", "venv", folder])
    python = str(environment.python)
    install = (
        [tool, "pip", "install", "--python", python] if tool else [python, "-I", "-m", "pip", "install", "--no-input"]
    )
    for number, section in enumerate(pins.sections):
        file = environment.folder / f"pins-{number}.txt"
        file.write_text("\n".join(section.requirements) + "\n")
        say(f"{len(section.requirements)} packages {' '.join(section.options)}".rstrip(), False)
        do([*install, *section.options, "-r", str(file)])
    found = json.loads(subprocess.run([python, "-I", "-c", _VERSIONS], capture_output=True, check=True).stdout)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    marker = Marker(pins=pins.digest, size_mib=environment.size_mib(), created=now, **found)
    environment.complete(marker)
    return marker


def _do(command: Sequence[str], log: IO[str], lock: int, say: Say) -> None:
    """Run one command; what it says goes to the log and to `say`. It holds `lock` too: it may live on where this
    process is killed, and nobody else shall work on the environment meanwhile.

    Ctrl-C in a terminal reaches this process alone, which ends the command with all that it has started.
    """
    print("$", *command, file=log, flush=True)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", env=_clean(), pass_fds=(lock,), start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", file=log, flush=True)
                if line.strip():
                    say(line.strip(), True)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        last = Path(log.name).read_text().splitlines()[-_LAST_LINES:]
        raise EbrlError(
            f"{' '.join(command[:4])} ... failed with exit code {process.returncode}",
            detail="\n".join(last),
            hint=f"the whole log: {log.name}",
        )


def _clean() -> dict[str, str]:
    """The environment variables without those that lead to packages elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
