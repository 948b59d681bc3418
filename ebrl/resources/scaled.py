"""Machines with other numbers of GPUs, and as many cores and as much memory for each of them."""

from __future__ import annotations

from collections import Counter

import attrs

from ebrl.errors import UsageError
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool


def scaled(pool: ResourcePool, gpus: int) -> ResourcePool:
    """A machine like `pool`, but with `gpus` GPUs; of several models in the same proportion.

    UsageError where `pool` has none, or not that proportion.
    """
    present = len(pool.gpus)
    if not present:
        raise UsageError(
            "a machine without GPUs has no other number of them either", hint="name some: --machine 8xH100,56c,512GiB"
        )
    if gpus == present:
        return pool
    if gpus < 1:
        raise UsageError(f"a machine with {gpus} GPUs is none to compare with", hint="write 1 or more, as in 1,2,4,8")
    chosen: list[Gpu] = []
    for model, count in Counter(gpu.name for gpu in pool.gpus).items():
        if count * gpus % present:
            raise UsageError(
                f"{gpus} GPUs cannot be {count} parts of {present} {model}",
                hint="name numbers that keep the proportion of the models",
            )
        like = next(gpu for gpu in pool.gpus if gpu.name == model)
        first = len(chosen)
        chosen += [
            attrs.evolve(like, uuid=f"GPU-{number}", index=number)
            for number in range(first, first + count * gpus // present)
        ]
    return attrs.evolve(
        pool,
        cores=tuple(range(max(1, round(len(pool.cores) * gpus / present)))),
        gpus=tuple(chosen),
        memory_mib=None if pool.memory_mib is None else round(pool.memory_mib * gpus / present),
    )
