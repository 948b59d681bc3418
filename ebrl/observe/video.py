"""Videos: frames become an MP4 file (H.264) that browsers play. PyAV is imported when the first one is begun."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ebrl.errors import UsageError
from ebrl.graph.items import Array

UNKNOWN_HZ = 20.0
"""Frames per second of a simulator that does not declare its control frequency."""


def require() -> Any:
    """The package that encodes; UsageError with the way out where it is missing."""
    try:
        import av
    except ImportError:
        raise UsageError(
            "recording videos needs the package av, which this interpreter lacks", hint="pip install av"
        ) from None
    return av


class Video:
    """One film, encoded while it is shot: a frame costs its pixels, not the length of the film.

    folder: where `finish` puts the file; made where it is missing. Until then the file is hidden.
    hz: frames per second.

    Raises UsageError where PyAV is missing.
    """

    def __init__(self, folder: Path, name: str, hz: float | None) -> None:
        self._av = require()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._file = folder / f".{name}.mp4"
        self._container = self._av.open(str(self._file), "w", format="mp4", options={"movflags": "faststart"})
        self._rate = Fraction(hz or UNKNOWN_HZ).limit_denominator(1000)
        self._stream: Any = None
        self._shape: tuple[int, ...] = ()

    def add(self, frame: Array) -> None:
        """A frame, uint8 [height, width, 3], of the same size as those before it; ValueError says what it is else."""
        shape = self._shape or frame.shape
        if frame.dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or frame.shape != shape:
            size = f"({shape[0]}, {shape[1]}, 3)" if self._shape else "(height, width, 3)"
            raise ValueError(f"a frame is {frame.dtype} {frame.shape}; expected uint8 {size}")
        if self._stream is None:
            self._open(shape)
        self._encode(self._av.VideoFrame.from_ndarray(np.ascontiguousarray(_even(frame)), format="rgb24"))

    def finish(self, name: str) -> Path:
        """Complete the film as `name`.mp4; replaces an older one."""
        if self._stream is not None:
            self._encode(None)
        self._container.close()
        return self._file.replace(self._folder / f"{name}.mp4")

    def drop(self) -> None:
        """Nothing remains of it."""
        self._container.close()
        self._file.unlink(missing_ok=True)

    def _open(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._stream = self._container.add_stream("libx264", rate=self._rate, options={"preset": "veryfast"})
        self._stream.height, self._stream.width = shape[0] + shape[0] % 2, shape[1] + shape[1] % 2
        self._stream.pix_fmt = "yuv420p"  # what every player knows
        self._stream.codec_context.thread_count = 1  # the cores are the simulators'

    def _encode(self, frame: Any) -> None:
        for packet in self._stream.encode(frame):
            self._container.mux(packet)


def _even(frame: Array) -> Array:
    """With height and width as H.264 wants them: the last row or column twice where they are odd."""
    height, width, _ = frame.shape
    return frame if height % 2 == width % 2 == 0 else np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
