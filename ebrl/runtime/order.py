"""The order for an environment process, and how any process that carries one out is started."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import attrs

from ebrl.errors import SimulatorNotFound
from ebrl.interpreters import packages
from ebrl.runtime import wire
from ebrl.runtime.family import MARK

THREAD_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@attrs.define(frozen=True, kw_only=True)
class EnvironmentOrder:
    """Everything an environment process needs to know to be born."""

    name: str
    """For messages: ``robosuite:Lift``."""
    factory: Mapping[str, str]
    """Importable reference to what makes the simulator."""
    target: str
    options: Mapping[str, Any]
    program: Mapping[str, str]
    """Reference to the simulation stage's function."""
    path: Sequence[str] = ()
    """Folders to import from, such as that of the workflow file."""
    python: str | None = None
    """Interpreter of the backend's own environment; None is the one that runs this."""
    remedy: str = ""
    """The hint where a package is missing."""
    threads: int = 1
    log_folder: str | None = None
    family: str = ""
    """Its mark, where the processes belong to one (see `ebrl.runtime.family`)."""


def start(
    module: str, order: EnvironmentOrder, descriptors: Sequence[int], log: IO[bytes], *, stdin: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start ``module.main(order, *descriptors, pid of this process)`` in the interpreter of `order`.

    SimulatorNotFound where there is no such interpreter.
    """
    environment = {name: value for name, value in os.environ.items() if order.python is None or not _own(name)}
    # The order may be larger than a pipe: writing it must not wait for the process to come up.
    with tempfile.TemporaryFile() as paper:
        pickle.dump(_as_plain_data(order), paper, 4)
        paper.flush()
        paper.seek(0)
        numbers = (paper.fileno(), *descriptors, os.getpid())
        try:
            return subprocess.Popen(
                [order.python or sys.executable, packages.BOOTSTRAP, module, *map(str, numbers)],
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(paper.fileno(), *descriptors),
                env=environment | dict.fromkeys(THREAD_POOLS, str(order.threads)) | {MARK: order.family},
                bufsize=0,
                start_new_session=True,  # the terminal's Ctrl-C is for the driver; what it starts dies with it
            )
        except (FileNotFoundError, PermissionError) as error:
            raise SimulatorNotFound(
                f"the interpreter of {order.name} is gone: {error.filename}",
                hint=order.remedy or "was its environment removed? see `ebrl env list`",
            ) from None


def _own(variable: str) -> bool:
    """Whether an environment variable leads to packages of this interpreter."""
    return variable.startswith("PYTHON") or variable == "VIRTUAL_ENV"


def _as_plain_data(order: EnvironmentOrder) -> dict[str, Any]:
    # Options are pickled on their own: what they need may be importable only from the order's path.
    return {
        "name": order.name,
        "factory": dict(order.factory),
        "target": order.target,
        "options": wire.dumps(dict(order.options)),
        "program": dict(order.program),
        "path": list(order.path),
        "remedy": order.remedy,
        "packages": packages.shared(),
        "adapter": packages.adapter(order.factory["module"]) if order.python is not None else {},
    }
