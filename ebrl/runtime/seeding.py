"""All randomness of a run derives from its seed and from what it is for, never from time or order."""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b

import numpy as np

_EPISODE = struct.Struct("<qqqqq")


def reset_seed(run_seed: int, purpose: str, environment: int, episode: int) -> int:
    """Seed of one episode: 31 bits, since some simulators take no more."""
    entropy = (run_seed, zlib.crc32(purpose.encode()), environment, episode)
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def chunk_seed(run_seed: int, purpose: int, environment: int, episode: int, chunk: int) -> int:
    """Seed of the random choices of one action chunk: 64 bits."""
    digest = blake2b(_EPISODE.pack(run_seed, purpose, environment, episode, chunk), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
