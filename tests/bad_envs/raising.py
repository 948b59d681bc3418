from __future__ import annotations

from bad_envs.counting import Faulty


class Raising(Faulty):
    """`step` raises."""

    def fault(self) -> None:
        raise RuntimeError("the gripper is stuck")


class RaisingUnprintable(Faulty):
    """`step` raises what cannot even be printed."""

    def fault(self) -> None:
        class Unprintable(Exception):
            message = object()

            def __str__(self) -> str:
                raise ValueError("no text")

        raise Unprintable


class RaisingSystemExit(Faulty):
    """`step` wants to end the process in an orderly way."""

    def fault(self) -> None:
        raise SystemExit("license expired")
