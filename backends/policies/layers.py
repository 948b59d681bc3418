"""Initial weights of dense networks, and whether given weights fit. Numpy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ebrl.errors import UsageError
from ebrl.graph.items import Array


def dense(name: str, sizes: Sequence[int], gain: float, rng: np.random.Generator) -> dict[str, Array]:
    """``<name>/<layer>/weight`` [in, out], orthogonal with gain sqrt(2), `gain` for the last layer; zero biases."""
    arrays: dict[str, Array] = {}
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        last = layer == len(sizes) - 2
        arrays[f"{name}/{layer}/weight"] = orthogonal(rows, columns, rng) * np.float32(gain if last else 2**0.5)
        arrays[f"{name}/{layer}/bias"] = np.zeros(columns, np.float32)
    return arrays


def orthogonal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """[rows, columns] float32 with orthonormal rows or columns, whichever are fewer."""
    tall = rng.standard_normal((max(rows, columns), min(rows, columns)))
    basis, upper = np.linalg.qr(tall)
    basis *= np.sign(np.diag(upper))  # makes the factorisation, and so the weights, unique
    return np.ascontiguousarray(basis if rows >= columns else basis.T, dtype=np.float32)


def check_fit(arrays: Mapping[str, Array], expected: Mapping[str, Array], where: str) -> None:
    """Raise UsageError unless `arrays` have the names and shapes of `expected`."""
    for name in sorted({*expected, *arrays}):
        have = arrays[name].shape if name in arrays else "missing"
        want = expected[name].shape if name in expected else "unknown"
        if have != want:
            raise UsageError(
                f"these weights do not fit: {name} is {have}, expected {want}",
                where=where,
                hint="use the options (hidden, chunk, observation_keys) of the run that made them",
            )
