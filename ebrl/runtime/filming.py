"""Filming: which episodes of an evaluation become videos, and what becomes of their frames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import attrs

from ebrl.errors import UsageError
from ebrl.graph.items import Array, Episode
from ebrl.observe.video import Video

_OUTCOME = {True: "-success", False: "-failure", None: ""}


@attrs.define(kw_only=True)
class Filming:
    """Films the first `count` episodes, as ``<title>-episode-<index>-success.mp4`` in `folder`; the outcome is
    ``success``, ``failure``, or ``lost`` where the environment was, and left out where the simulator does not
    tell. Episode e of environment n of N has the index ``e * N + n``.

    A film that cannot be made costs nothing but itself: `say` hears why, once.
    """

    folder: Path
    title: str
    count: int
    environments: int
    hz: Callable[[], float | None]
    """Gives the frames per second once there are frames; None where the simulator declares no control frequency."""
    say: Callable[[str], None]
    shown: Callable[[Path], None] = lambda path: None
    """Hears of every finished film."""
    _films: dict[int, Video] = attrs.field(factory=dict, init=False)
    _spoilt: set[int] = attrs.field(factory=set, init=False)

    def wanted(self, environment: int, episode: int) -> bool:
        index = self._index(environment, episode)
        return index < self.count and index not in self._spoilt

    def frame(self, environment: int, episode: int, image: Array | str) -> None:
        """What the environment shows now, or a sentence that says why there is no image."""
        if not self.wanted(environment, episode):
            return
        index = self._index(environment, episode)
        if isinstance(image, str):
            self._spoil(index, image)
            return
        try:
            if index not in self._films:
                self._films[index] = Video(self.folder, self._name(index), self.hz())
            self._films[index].add(image)
        except UsageError:
            raise
        except Exception as error:  # of the codec, of all kinds
            self._spoil(index, _why(error))

    def over(self, episode: Episode) -> None:
        """An episode has ended."""
        index = self._index(episode.environment, episode.episode)
        if (film := self._films.get(index)) is None:
            return
        outcome = "-lost" if episode.lost else _OUTCOME[episode.success]
        try:
            path = film.finish(self._name(index) + outcome)
        except Exception as error:
            self._spoil(index, _why(error))
        else:
            del self._films[index]
            self.shown(path)

    def close(self) -> None:
        """Drop what is not complete."""
        while self._films:
            self._films.popitem()[1].drop()

    def _index(self, environment: int, episode: int) -> int:
        return episode * self.environments + environment

    def _name(self, index: int) -> str:
        return f"{self.title}-episode-{index}"

    def _spoil(self, index: int, why: str) -> None:
        if not self._spoilt:
            self.say(f"no video of episode {index}: {why}")
        self._spoilt.add(index)
        if (film := self._films.pop(index, None)) is not None:
            with contextlib.suppress(Exception):  # it is broken already
                film.drop()


def _why(error: Exception) -> str:
    """Ours speak for themselves."""
    return str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
