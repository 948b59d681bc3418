"""Where an environment process begins, in whatever interpreter. Standard library only, Python 3.8 on.

Run as a file: ``python bootstrap.py MODULE ORDER NUMBER ...``. ORDER is a descriptor of the pickled order; its
``packages`` say where the parent's installation has the few packages that may be used here, so that ebrl need
not be installed and nothing else of the parent gets in. Then ``MODULE.main(order, NUMBER, ...)``.

multiprocessing runs it again in what a simulator spawns, under another name: the same packages are found there.
"""

from __future__ import annotations

import os
import sys

# Python looks into this file's folder first; modules of the same name as others must not hide these.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]

import importlib  # noqa: E402
import importlib.abc  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import pickle  # noqa: E402
from typing import Any  # noqa: E402


class Finder(importlib.abc.MetaPathFinder):
    """Finds packages and modules at given places: name -> folder of the package, or file of the module."""

    def __init__(self, places: dict[str, str]) -> None:
        self.places = places

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        place = self.places.get(name)
        if place is None:
            return None
        if not os.path.isdir(place):
            return importlib.util.spec_from_file_location(name, place)
        init = os.path.join(place, "__init__.py")
        if os.path.isfile(init):
            return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[place])
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [place]
        return spec


PACKAGES, ADAPTER = "EBRL_PACKAGES", "EBRL_ADAPTER"
"""Environment variables: where the packages and the adapter of the order lie, as JSON, for spawned processes."""


def main() -> None:
    """See the module."""
    module, *numbers = sys.argv[1:]
    with open(int(numbers[0]), "rb") as paper:
        order = pickle.load(paper)
    os.environ[PACKAGES], os.environ[ADAPTER] = json.dumps(order["packages"]), json.dumps(order["adapter"])
    install()
    importlib.import_module(module).main(order, *map(int, numbers[1:]))


def install() -> None:
    """Let imports find what the parent named."""
    sys.meta_path.insert(0, Finder(json.loads(os.environ[PACKAGES])))
    # An adapter of somebody else: better the one that is installed here.
    sys.meta_path.append(Finder(json.loads(os.environ[ADAPTER])))


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    install()
