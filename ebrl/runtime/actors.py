"""Actors: where a rollout gets its actions from."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ebrl.runtime.channel import Connection, Listener
from ebrl.runtime.rollout import Rollout
from ebrl.schedule.sharing import Message, Sharing

_LARGEST = 1e3  # random action where a space has no bound


class ChannelActor:
    """Asks generation workers for actions, over the channel."""

    def __init__(self, rollout: Rollout, where: str) -> None:
        assert rollout.slots is not None
        self._rollout, self._slots = rollout, rollout.slots
        self._listener = Listener(where, rollout.slots)
        self._peers: set[Connection] = set()
        self._sharing: Sharing[Connection] = Sharing(batch_size=rollout.batch_size)
        rollout.loop.watch(self._listener, self._accept)

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        self._sharing.batch_size = self._rollout.batch_size
        self._send(self._sharing.asked(rows, self._slots["min_version"][list(rows)].tolist(), hungry=hungry))

    def close(self) -> None:
        self._listener.close()
        for peer in self._peers:
            peer.close()

    def _send(self, messages: Iterable[Message[Connection]]) -> None:
        for peer, rows, hungry in messages:
            try:
                peer.send(rows, hungry=hungry)
            except OSError:
                self._lost(peer)

    def _accept(self) -> None:
        if (peer := self._listener.accept()) is None:
            return
        self._peers.add(peer)
        self._rollout.loop.watch(peer, lambda: self._answered(peer))
        self._send(self._sharing.joined(peer))

    def _answered(self, peer: Connection) -> None:
        try:
            for message in peer.receive():
                if peer not in self._peers:
                    return
                version = max(self._slots["version"][list(message.rows)].tolist())
                self._send(self._sharing.answered(peer, message.rows, version))
                self._rollout.actions_arrived(message.rows)
        except OSError:
            self._lost(peer)

    def _lost(self, peer: Connection) -> None:
        """A generation worker is gone: another one, or its successor, gets what it did not answer."""
        if peer not in self._peers:
            return
        self._peers.remove(peer)
        self._rollout.loop.forget(peer)
        peer.close()
        self._send(self._sharing.left(peer))


class RandomActor:
    """Answers every request at once, with random actions: the simulators alone."""

    def __init__(self, rollout: Rollout) -> None:
        assert rollout.slots is not None and rollout.spec is not None
        self._rollout = rollout
        self._random = np.random.default_rng(0)
        self._space = rollout.spec.action
        self._asked_s: dict[int, float] = {}
        self.latencies_s: list[float] = []
        """Of every chunk, from its actions to the next question of its environment."""

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        slots, now = self._rollout.slots, time.perf_counter()
        assert slots is not None
        for row in rows:
            if row in self._asked_s:
                self.latencies_s.append(now - self._asked_s[row])
            slots["actions"][row] = self._actions(slots["actions"][row].shape)
            self._asked_s[row] = now
        self._rollout.loop.call(lambda: self._rollout.actions_arrived(rows))

    def close(self) -> None: ...

    def _actions(self, shape: tuple[int, ...]) -> Any:
        space = self._space
        low = np.maximum(-1.0 if space.low is None else space.low, -_LARGEST)
        high = np.minimum(1.0 if space.high is None else space.high, _LARGEST)
        if np.dtype(space.dtype).kind in "iu":
            return self._random.integers(low.astype(int), high.astype(int), shape, endpoint=True)
        return self._random.uniform(low, high, shape)
