from __future__ import annotations

import faulthandler
import os
import signal

from bad_envs.counting import Faulty


class Exiting(Faulty):
    """`step` ends the process without a word of Python."""

    def fault(self) -> None:
        print("physics engine: out of licenses")
        os._exit(1)


class Segfaulting(Faulty):
    """`step` runs into a bug of native code."""

    def fault(self) -> None:
        faulthandler._sigsegv()


class Signalled(Faulty):
    """`step` receives a signal without a name."""

    def fault(self) -> None:
        os.kill(os.getpid(), signal.SIGRTMIN + 1)
