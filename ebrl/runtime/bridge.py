"""The channel between nodes: the local channel on either side, Dask's comms between them.

The engines know only the local channel. On the simulation's node a relay connects as if it were a
generation worker; on the generation's node one listens as if it were a simulation worker, with slots of
its own. Between them rows travel with their fields, so TLS and UCX come along with Dask.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from distributed import Worker
from distributed.comm.core import Comm, connect
from distributed.core import Status
from distributed.protocol.serialize import to_serialize

from ebrl.runtime import channel
from ebrl.runtime.slots import OBSERVATION, Slots, anonymous_memory

OPERATION = "ebrl-channel"
_ANSWER = ("actions", "log_probs", "version")
_RETRY_S = 0.2
_CONNECT_S = 5.0  # the address may be that of a worker that was just lost


def install(worker: Worker) -> None:
    """Let other nodes reach the channels of this worker's node."""
    worker.handlers[OPERATION] = _export


def reach(worker: Worker, source: str, where: str, local: str) -> None:
    """Make the channel `where` of Dask worker `source` appear here under the name `local`, until this worker ends."""
    worker.loop.add_callback(_import, worker, source, where, local)


async def _export(comm: Comm, where: str) -> Any:
    """The simulation's side: take part in the local channel in the name of the other node."""
    with contextlib.ExitStack() as stack:
        stack.callback(comm.abort)  # the other side waits for nothing else; it comes again
        with contextlib.suppress(OSError):  # the engine of a worker that was just replaced does not listen yet
            connection, slots = await asyncio.to_thread(channel.connect, where)
            stack.callback(connection.close)
            await comm.write(slots.layout)
            asked = [name for name in slots.arrays if name.startswith(OBSERVATION)] + ["seed", "min_version"]
            await _relay(comm, connection, slots, sent=asked)
    return Status.dont_reply


async def _import(worker: Worker, source: str, where: str, local: str) -> None:
    """The generation's side; begins again when the other worker was replaced."""
    while worker.status in (Status.running, Status.paused):
        with contextlib.suppress(OSError):
            known = (await worker.scheduler.identity(n_workers=-1))["workers"]
            address = next((address for address, info in known.items() if info["name"] == source), None)
            if address is not None:
                await _attend(worker, address, where, local)
        await asyncio.sleep(_RETRY_S)


async def _attend(worker: Worker, address: str, where: str, local: str) -> None:
    """Offer here what the worker at `address` offers there, until either side ends; raises OSError then, too."""
    with contextlib.ExitStack() as stack:
        comm = await connect(address, timeout=_CONNECT_S, **worker.connection_args)
        stack.callback(comm.abort)
        await comm.write({"op": OPERATION, "where": where, "reply": False})
        described = await comm.read()
        memory = anonymous_memory()
        stack.callback(os.close, memory)
        slots = Slots.create(memory, described)
        listener = channel.Listener(local, slots)
        stack.callback(listener.close)
        await _readable(listener)
        if (connection := listener.accept()) is not None:
            stack.callback(connection.close)
            await _relay(comm, connection, slots, sent=_ANSWER)


async def _relay(comm: Comm, connection: channel.Connection, slots: Slots, *, sent: Iterable[str]) -> None:
    """Carry messages both ways, `sent` fields of their rows with those that leave; ends with either side."""

    async def leave() -> None:
        while True:
            await _readable(connection)
            for message in connection.receive():
                rows = np.array(message.rows, np.intp)
                fields = {name: to_serialize(slots[name][rows]) for name in sent}
                await comm.write({"rows": list(message.rows), "hungry": message.hungry, "fields": fields})

    async def arrive() -> None:
        while True:
            message = await comm.read()
            rows = np.array(message["rows"], np.intp)
            for name, values in message["fields"].items():
                slots[name][rows] = values
            connection.send(message["rows"], hungry=message["hungry"])

    try:
        async with asyncio.TaskGroup() as both:  # waits for both: nobody watches the socket when it is closed
            both.create_task(leave())
            both.create_task(arrive())
    except* OSError:
        pass


async def _readable(source: Any) -> None:
    loop, ready, descriptor = asyncio.get_running_loop(), asyncio.Event(), source.fileno()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
