from __future__ import annotations

import os
import selectors
import socket
import threading
import uuid
from collections.abc import Iterator

import pytest

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.runtime import channel
from ebrl.runtime.channel import Connection, Listener, Message, address, connect
from ebrl.runtime.slots import Slots, anonymous_memory, layout


@pytest.fixture
def where() -> str:
    return address(uuid.uuid4().hex, "simulate-0")


@pytest.fixture
def slots() -> Iterator[Slots]:
    descriptor = anonymous_memory()
    spec = SimulatorSpec(observation={"state": Space((3,))}, action=Space((2,)))
    yield Slots.create(descriptor, layout(spec, rows=200, chunk=2))
    os.close(descriptor)


@pytest.fixture
def listener(where: str, slots: Slots) -> Iterator[Listener]:
    listening = Listener(where, slots)
    yield listening
    listening.close()


def _meet(listener: Listener, where: str) -> tuple[Connection, Connection, Slots]:
    """Both ends of a channel."""
    accepted: list[Connection | None] = []
    accepting = threading.Thread(target=lambda: accepted.append(listener.accept()))
    accepting.start()
    connection, slots = connect(where)
    accepting.join(5.0)
    (peer,) = accepted
    assert peer is not None
    return peer, connection, slots


def _wait(connection: Connection) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        assert selector.select(5.0)


def test_slots_are_shared_and_rows_travel(listener: Listener, where: str, slots: Slots) -> None:
    peer, connection, seen = _meet(listener, where)
    slots["actions"][5] = 3.0
    assert seen["actions"][5].tolist() == [[3.0, 3.0], [3.0, 3.0]]
    peer.send([5, 199], hungry=True)
    peer.send([], hungry=True)
    peer.send(range(200))
    received: list[Message] = []
    while len(received) < 3:
        _wait(connection)
        received += connection.receive()
    assert received == [Message((5, 199), True), Message((), True), Message(tuple(range(200)), False)]
    connection.send([5])
    _wait(peer)
    assert list(peer.receive()) == [Message((5,))]
    for end in (peer, connection):
        end.close()


def test_nothing_to_receive_is_no_error(listener: Listener, where: str) -> None:
    peer, connection, _ = _meet(listener, where)
    assert list(connection.receive()) == []
    peer.close()
    _wait(connection)
    with pytest.raises(ConnectionError):
        list(connection.receive())
    connection.close()


def test_a_message_in_pieces() -> None:
    left, right = socket.socketpair()
    whole = Connection(right)
    sent = channel._HEADER.pack(True, 2) + bytes([1, 0, 0, 0, 2, 0, 0, 0])
    for byte in sent[:-1]:
        left.send(bytes([byte]))
        assert list(whole.receive()) == []
    left.send(sent[-1:])
    assert list(whole.receive()) == [Message((1, 2), True)]
    left.close()
    whole.close()


def test_nobody_listens(where: str) -> None:
    with pytest.raises(OSError):
        connect(where)


def test_who_left_before_the_greeting_disturbs_nobody(listener: Listener, where: str) -> None:
    early = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    early.connect(where)
    early.close()
    assert listener.accept() is None
    peer, connection, _ = _meet(listener, where)
    peer.close()
    connection.close()


def test_a_listener_that_is_stuck_is_tried_again_later(
    listener: Listener, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_GREETING_S", 0.1)
    with pytest.raises(TimeoutError):
        connect(where)


def test_strangers_are_refused_at_both_ends(listener: Listener, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    with pytest.raises(PermissionError, match="belongs to user"):
        connect(where)
    assert listener.accept() is None


def test_names_fit_and_differ() -> None:
    assert len(address("run", "a_stage_with_a_name_of_quite_some_length_" * 5 + "-0")) < 100
    assert address("run-a", "b") != address("run", "a-b")
    assert address("run", "b") == address("run", "b")


def test_a_successor_listens_under_the_same_name(where: str, slots: Slots) -> None:
    for _ in range(2):
        listener = Listener(where, slots)
        peer, connection, _ = _meet(listener, where)
        for end in (peer, connection, listener):
            end.close()
