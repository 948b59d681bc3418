"""Finds the Python that an environment is made with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebrl.errors import UsageError


def find_python(wanted: Sequence[str]) -> str:
    """Path of an interpreter with one of the `wanted` minor versions, or a version that uv will fetch.

    This interpreter's own version comes first where it is among them. UsageError where there is none.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for version in sorted(wanted, key=lambda version: version != own):
        for candidate in _candidates(version, own):
            if _version(candidate) == version:
                return candidate
    if uv() is not None:
        return wanted[0]
    raise UsageError(
        f"no Python {' or '.join(wanted)} is found on this machine",
        hint="install one, or put uv on the PATH, which fetches it",
    )


def starts(python: str) -> bool:
    """Whether this interpreter runs at all; one that only takes long does."""
    try:
        return subprocess.run([python, "-I", "-c", ""], capture_output=True, timeout=30).returncode == 0
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False


def uv() -> str | None:
    return shutil.which("uv")


def _candidates(version: str, own: str) -> Iterator[str]:
    if version == own:
        yield sys.executable
    if (found := shutil.which(f"python{version}")) is not None:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted((str(path) for path in pyenv.glob(f"{version}.*/bin/python")), reverse=True)
    if (tool := uv()) is not None:
        found = subprocess.run([tool, "python", "find", version], capture_output=True, text=True).stdout.strip()
        if found:
            yield found


def _version(python: str) -> str:
    """What it says itself: a shim on the PATH may lead nowhere."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
