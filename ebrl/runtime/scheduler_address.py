"""Whether a Dask scheduler answers at an address, found out before anything relies on it."""

from __future__ import annotations

import asyncio

from distributed import Security
from distributed.comm.core import connect

from ebrl.errors import UsageError

ANSWER_S = 10.0  # for a scheduler to answer


async def knock(address: str) -> None:
    """Raise UsageError where no scheduler answers: a Client or Worker would try again, and raise what nobody
    understands."""
    try:
        async with asyncio.timeout(ANSWER_S):
            comm = await connect(address, timeout=ANSWER_S, **Security().get_connection_args("worker"))
            try:
                await comm.write({"op": "identity", "reply": True})
                kind = (await comm.read())["type"]
            finally:
                comm.abort()
    except Exception as error:  # of all kinds, MemoryError among them, where another protocol is spoken
        raise no_scheduler(address, error) from None
    if kind != "Scheduler":
        raise no_scheduler(address, ValueError(f"that is a Dask {kind.lower()}"))


def no_scheduler(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"no Dask scheduler answers at {address}: {str(error) or f'no answer within {ANSWER_S:.0f} s'}",
        hint="start one with: dask scheduler --host ADDRESS",
    )
