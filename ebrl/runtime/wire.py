"""What is said between a simulation worker and its environment processes. Standard library and numpy only,
Python 3.8 on.

The order of what to create waits in a file that the child inherits. Commands travel on one pipe (standard input of
a process that is spawned), replies on another; both are fixed headers, replies may carry a text. Arrays travel through
the slots.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import numpy as np

COMMAND = struct.Struct("<Bq")  # operation, value
ATTACH, RESET, STEP, CLOSE, RENDER, RECORD = range(1, 7)
"""ATTACH: value bytes of JSON follow. RESET: value is the seed. STEP: value is how many actions of
the chunk to execute, negative for the first command of a new chunk. RECORD: value is 1 or 0, whether the replies
to resets and steps carry an image from now on; it is not answered."""

REPLY = struct.Struct("<BBBbIdI")  # kind, terminated, truncated, success, steps, elapsed_s, length of the text
READY, DONE, FAILED = range(1, 4)
"""READY: text is what `dumps` made of a dict with the simulator's ``spec`` and ``import_s``, in hexadecimal
digits. DONE: a reset, steps or a render; of the last, text is the image likewise, empty where the simulator
has no `render`. After RECORD it is the image too, or a sentence that says why there is none, both as `dumps`
writes them. FAILED: text describes the exception."""


def is_reply(data: bytes | bytearray) -> bool:
    """Whether `data`, no shorter than a header, can begin with a reply."""
    kind, terminated, truncated, success, *_ = REPLY.unpack_from(data)
    return kind in (READY, DONE, FAILED) and terminated in (0, 1) and truncated in (0, 1) and success in (-1, 0, 1)


WARM = struct.Struct("<Bqq")  # kind, pid, exit code
WARMED, FORKED, ENDED = range(1, 4)
"""What the warm process says, see `warm_child`. WARMED: it can fork now. ENDED: with the exit code, negative for a
signal."""


def dumps(value: Any) -> bytes:
    """Pickled so that any Python and any numpy reads it: the latter moved the functions that rebuild arrays."""
    buffer = io.BytesIO()
    _Pickler(buffer, 4).dump(value)
    return buffer.getvalue()


loads = pickle.loads


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype.names is None and not value.dtype.hasobject:
            return _array, (value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, np.generic) and value.dtype.names is None and not value.dtype.hasobject:
            return _scalar, (value.dtype.str, value.tobytes())
        return NotImplemented


def _array(dtype: str, shape: tuple[int, ...], data: bytes) -> Any:
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _scalar(dtype: str, data: bytes) -> Any:
    return np.frombuffer(data, dtype)[0]
