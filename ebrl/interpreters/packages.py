"""What an environment process may import from this installation, and where it lies."""

from __future__ import annotations

import functools
import importlib.util
import os

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap.py")

_SHARED = ("ebrl", "ebrl.backends", "cloudpickle")
"""Their subpackages come along. cloudpickle is pure Python, and both sides need the same."""


@functools.cache
def shared() -> dict[str, str]:
    """Package -> folder."""
    return {name: place for name in _SHARED if (place := _place(name)) is not None}


def adapter(module: str) -> dict[str, str]:
    """The top package (or module) of somebody else's adapter -> its folder (or file)."""
    top = module.partition(".")[0]
    place = None if top in ("ebrl", "__main__") else _place(top)
    return {} if place is None else {top: place}


def _place(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        return next(iter(spec.submodule_search_locations), None)
    return spec.origin
