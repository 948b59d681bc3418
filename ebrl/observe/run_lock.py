"""One process per run directory: a lock that the kernel drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ebrl.errors import UsageError

LOCK = ".lock"


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process within the block.

    UsageError names the process that holds it already, or says that nothing can be written there.
    """
    try:
        file = open(folder / LOCK, "a+", encoding="utf-8")  # noqa: SIM115 - an error in the block is not one of opening
    except OSError as error:
        raise UsageError(f"the run directory {folder} cannot be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UsageError(
                f"the run directory {folder} is in use by {file.read() or 'another process'}",
                hint="wait until that run has ended, or choose another directory",
            ) from None
        except OSError:
            pass  # some network file systems know no locks; a run is possible there all the same
        file.truncate(0)
        file.write(f"process {os.getpid()} on {os.uname().nodename}")
        file.flush()
        yield
