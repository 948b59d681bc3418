"""Actors: where a rollout gets its actions from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ebrl.runtime.channel import Connection, Listener
from ebrl.runtime.rollout import Rollout

_LARGEST = 1e3  # random action where a space has no bound


class ChannelActor:
    """Asks generation workers for actions, over the channel."""

    def __init__(self, rollout: Rollout, where: str) -> None:
        assert rollout.slots is not None
        self._rollout = rollout
        self._listener = Listener(where, rollout.slots)
        self._peers: dict[Connection, set[int]] = {}
        self._unserved: list[int] = []
        self._asked_s: dict[int, float] = {}
        self._answered, self._waited_s = 0, 0.0
        rollout.loop.watch(self._listener, self._accept)

    def request(self, rows: Sequence[int], *, hungry: bool) -> None:
        if not self._peers:
            self._unserved.extend(rows)
            return
        # Whoever has the least to do gets the next batch; all must hear that the simulation is hungry.
        chosen = min(self._peers, key=lambda peer: len(self._peers[peer]))
        for peer in list(self._peers):
            if peer is chosen or hungry:
                self._send(peer, rows if peer is chosen else (), hungry)

    def take_answer_s(self) -> float:
        """Mean time from a question to its answer since this was asked last; 0 where there was none."""
        mean_s = self._waited_s / max(self._answered, 1)
        self._answered, self._waited_s = 0, 0.0
        return mean_s

    def close(self) -> None:
        self._listener.close()
        for peer in self._peers:
            peer.close()

    def _send(self, peer: Connection, rows: Sequence[int], hungry: bool) -> None:
        if (owed := self._peers.get(peer)) is None:  # lost since the peers were listed
            if rows:
                self.request(rows, hungry=hungry)
            return
        owed.update(rows)
        self._asked_s.update(dict.fromkeys(rows, time.perf_counter()))
        try:
            peer.send(rows, hungry=hungry)
        except OSError:
            self._lost(peer)

    def _accept(self) -> None:
        if (peer := self._listener.accept()) is None:
            return
        self._peers[peer] = set()
        self._rollout.loop.watch(peer, lambda: self._heard(peer))
        rows, self._unserved = self._unserved, []
        self._send(peer, rows, hungry=True)

    def _count(self, rows: Sequence[int]) -> None:
        now = time.perf_counter()
        self._answered += len(rows)
        self._waited_s += sum(now - self._asked_s[row] for row in rows)

    def _heard(self, peer: Connection) -> None:
        try:
            for message in peer.receive():
                self._peers[peer].difference_update(message.rows)
                self._count(message.rows)
                self._rollout.actions_arrived(message.rows)
        except OSError:
            self._lost(peer)

    def _lost(self, peer: Connection) -> None:
        """A generation worker is gone: another one, or its successor, gets what it did not answer."""
        if (owed := self._peers.pop(peer, None)) is None:
            return
        self._rollout.loop.forget(peer)
        peer.close()
        self.request(sorted(owed), hungry=True)


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
