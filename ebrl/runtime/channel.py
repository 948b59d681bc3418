"""The channel between a simulation worker and a generation worker on one node.

Observations and actions stay in the slots; only row numbers travel, over a Unix socket. The simulation
side listens under a name that both sides derive from the run, and hands every generation worker that
connects the layout and the file descriptor of its slots. A worker that comes back after a crash
connects again and is sent what is still open.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import attrs

from ebrl.runtime.slots import Slots

_HEADER = struct.Struct("<?I")  # hungry, number of rows
_GREETING_S = 5.0  # a simulation worker that does not greet in this time is stuck; try again later
_PEER = struct.Struct("3i")  # pid, uid, gid of the other end


def address(run: str, worker: str) -> str:
    """Where the channel of simulation worker `worker` is found: an abstract name on Linux, else a path."""
    # A digest, since the system allows 107 bytes and stages may have long names.
    name = f"ebrl-{blake2b(f'{run}/{worker}'.encode(), digest_size=16).hexdigest()}"
    return f"\0{name}" if sys.platform == "linux" else os.path.join(tempfile.gettempdir(), name)


@attrs.define(frozen=True)
class Message:
    """Row numbers, and whether the simulation has nothing left to run meanwhile."""

    rows: tuple[int, ...]
    hungry: bool = False


class Connection:
    """Messages over a connected socket; neither end ever waits for the other to read."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, rows: Sequence[int], *, hungry: bool = False) -> None:
        """Raises OSError when the other end is gone. At most one message per row is ever unread, so the
        socket's buffer bounds the channel by the number of rows."""
        self._socket.sendall(_HEADER.pack(hungry, len(rows)) + array.array("I", rows).tobytes())

    def receive(self) -> Iterator[Message]:
        """All complete messages that have arrived; raises ConnectionError at the end of the stream."""
        with contextlib.suppress(BlockingIOError):
            if not (part := self._socket.recv(1 << 16, socket.MSG_DONTWAIT)):
                raise ConnectionResetError("the other end of the channel is gone")
            self._buffer += part
        while len(self._buffer) >= _HEADER.size:
            hungry, count = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + 4 * count
            if len(self._buffer) < end:
                break
            rows = array.array("I", bytes(self._buffer[_HEADER.size : end]))
            del self._buffer[:end]
            yield Message(tuple(rows), hungry)

    def close(self) -> None:
        self._socket.close()


class Listener:
    """The simulation side: gives each generation worker that connects the slots."""

    def __init__(self, where: str, slots: Slots) -> None:
        self._where = where
        self._slots = slots
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if not where.startswith("\0"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(where)
        self._socket.bind(where)
        self._socket.listen(8)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Connection | None:
        """A new generation worker, or None when a stranger knocked, or one that is gone already."""
        connected, _ = self._socket.accept()
        greeting = json.dumps(self._slots.layout).encode()
        try:
            _refuse_strangers(connected)
            socket.send_fds(connected, [struct.pack("<I", len(greeting))], [self._slots.descriptor])
            connected.sendall(greeting)
        except OSError:
            connected.close()
            return None
        return Connection(connected)

    def close(self) -> None:
        self._socket.close()
        if not self._where.startswith("\0"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._where)


def connect(where: str) -> tuple[Connection, Slots]:
    """The generation side; raises OSError while nobody listens."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(_GREETING_S)
    descriptors: list[int] = []
    try:
        connected.connect(where)
        _refuse_strangers(connected)
        size, descriptors, _, _ = socket.recv_fds(connected, 4, 1)
        if len(size) < 4 or not descriptors:
            raise ConnectionResetError("the simulation worker closed the channel")
        greeting = json.loads(_exactly(connected, struct.unpack("<I", size)[0]))
        connected.settimeout(None)
        slots = Slots(descriptors[0], greeting)
    except BaseException:
        connected.close()
        raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)  # the mapping keeps the memory
    return Connection(connected), slots


def _exactly(connected: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (part := connected.recv(size - len(data))):
            raise ConnectionResetError("the simulation worker closed the channel")
        data += part
    return data


def _refuse_strangers(connected: socket.socket) -> None:
    """Raise PermissionError when the other end belongs to another user, as far as the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return
    uid: int = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
    if uid != os.getuid():
        raise PermissionError(f"the other end of the channel belongs to user {uid}")
