"""The folder below /tmp where Dask keeps what its workers need: away with the run, or with the next one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "ebrl-"
_LOCK = "driver.lock"


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder for the block. Removes those of drivers that were killed.

    Each folder holds a file that its driver has locked; the kernel drops the lock when the driver dies.
    """
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        # Locked under another name first: a file without a lock would look abandoned.
        with open(folder / f"{_LOCK}.new", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.replace(file.name, folder / _LOCK)
            yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with open(lock, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # its driver lives, or it is another user's
