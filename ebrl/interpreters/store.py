"""Where the environments of backends lie on this machine, and which of them are complete."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import attrs
from attrs import field
from attrs.validators import deep_mapping, instance_of, matches_re

from ebrl.errors import EbrlError, UsageError

HOME = "EBRL_HOME"
"""Environment variable: the folder where EBRL keeps what outlives a run."""

_ANOTHER = f"set {HOME} to a folder that you may write to"
_ATTEMPTS, _MOMENT_S = 10, 0.1


def home() -> Path:
    """$EBRL_HOME, otherwise the user's data folder of this system. UsageError where the former cannot be read."""
    if chosen := os.environ.get(HOME):
        return _readable(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "ebrl"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "ebrl"


def _readable(name: str) -> Path:
    """The folder of that name, which need not be there yet."""
    folder = Path(name)
    try:
        folder = folder.expanduser().absolute()
        if not stat.S_ISDIR(folder.stat().st_mode):
            fault = "it is no folder"
        else:
            fault = "" if os.access(folder, os.R_OK | os.X_OK) else "you may not read it"
    except FileNotFoundError:
        fault = ""
    except (OSError, RuntimeError) as error:  # the latter: ~somebody who is unknown here
        fault = getattr(error, "strerror", None) or str(error)
    if fault:
        raise UsageError(f"{HOME} is {name}, which cannot be used: {fault}", hint=_ANOTHER)
    return folder


@attrs.define(frozen=True, kw_only=True)
class Marker:
    """Written last: an environment without it was not built to its end."""

    pins: str = field(validator=instance_of(str))
    """`Pins.digest` of what it was built from."""
    python: str = field(validator=matches_re(r"3\.\d+\.\d+"))
    """``3.11.7``"""
    packages: Mapping[str, str] = field(validator=deep_mapping(instance_of(str), instance_of(str)))
    """Installed distributions with their versions."""
    size_mib: int = field(validator=instance_of(int))
    created: str = field(validator=instance_of(str))
    """ISO date and time."""


@attrs.define(frozen=True)
class IsolatedEnvironment:
    """The virtual environment of one backend."""

    name: str

    def __attrs_post_init__(self) -> None:
        if not self.name or self.name.startswith(".") or os.sep in self.name:
            raise UsageError(f"{self.name!r} is no name of an environment")

    @property
    def folder(self) -> Path:
        return home() / "environments" / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def log(self) -> Path:
        """What was said while it was built."""
        return self.folder.with_name(f"{self.name}.log")

    def marker(self) -> Marker | None:
        """None where nothing can be run in it: it does not exist, is half-built or broken (see `fault`)."""
        return None if self.fault() else self._read()

    def fault(self) -> str:
        """What is wrong with an environment that was built to its end; empty where nothing is, or there is none."""
        if not self._marker.exists():
            return ""
        if self._read() is None:
            return f"{self._marker} cannot be read"
        return "" if os.access(self.python, os.X_OK) else f"its interpreter is gone: {self.python}"

    def _read(self) -> Marker | None:
        try:
            return Marker(**json.loads(self._marker.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def complete(self, marker: Marker) -> None:
        """Declare the environment usable."""
        draft = self._marker.with_suffix(".new")
        draft.write_text(json.dumps(attrs.asdict(marker), indent=1))
        draft.replace(self._marker)

    def remove(self) -> int:
        """Delete it, if it is there; returns the MiB that this freed. EbrlError where that is impossible."""
        if not self.folder.is_dir():
            return 0
        with contextlib.suppress(FileNotFoundError):
            self._marker.unlink()  # first: from now on nobody uses it
        size_mib = self.size_mib()
        _remove(self.folder.resolve())
        if self.folder.is_symlink():
            self.folder.unlink()
        self.log.unlink(missing_ok=True)
        return size_mib

    def size_mib(self) -> int:
        """What it takes on the disk."""
        files: dict[tuple[int, int], int] = {}  # by inode: uv links files
        for folder, _, names in os.walk(self.folder.resolve()):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(os.path.join(folder, name))
                    files[status.st_dev, status.st_ino] = status.st_blocks * 512
        return -(-sum(files.values()) // 2**20)

    @contextlib.contextmanager
    def locked(self, on_wait: Callable[[str], Any]) -> Iterator[int]:
        """Hold it against other processes; `on_wait` hears who holds it, if somebody does.

        Gives a descriptor: a process that inherits it holds the lock too, to its own end.
        """
        with self._lock_file() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                holder = f"process {lock.read().strip() or 'unknown'}, or what it started"
                on_wait(f"{holder}, works on {self.name}: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield lock.fileno()
            lock.truncate(0)

    def _lock_file(self) -> IO[str]:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            return open(self.folder.with_name(f"{self.name}.lock"), "a+")
        except OSError as error:
            raise UsageError(
                f"environments cannot be kept in {self.folder.parent}: {error.strerror}",
                hint=_ANOTHER,
            ) from None

    @property
    def _marker(self) -> Path:
        return self.folder / "ebrl.json"


def _remove(folder: Path) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            return shutil.rmtree(folder)
        except OSError as error:  # what was ended a moment ago may still write there
            if attempt == _ATTEMPTS - 1:
                raise EbrlError(f"{folder} cannot be removed: {error}") from None
            time.sleep(_MOMENT_S)


def existing() -> list[str]:
    """Names of the environments on this machine, the half-built ones included."""
    folder = home() / "environments"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
