"""The suite in the simulator's own interpreter: started by `ebrl.runtime.conformance`, answers over a pipe.

Standard library only, Python 3.8 on.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any

from ebrl.backends.conformance.suite import outcomes
from ebrl.backends.protocols import Simulator
from ebrl.runtime.birth import Birth
from ebrl.runtime.child import die_with_parent, seclude


def main(order: dict[str, Any], reply: int, parent: int) -> None:
    """Check the simulator of `order`; every outcome is one line of JSON on `reply`, an empty line ends them."""
    die_with_parent(parent)
    os.set_inheritable(reply, False)
    seclude(os.dup(2))

    def make() -> Simulator:
        birth = Birth(order)
        birth.load()
        birth.warm()
        return birth.build()

    with open(reply, "w", encoding="utf-8") as paper:
        for outcome in outcomes(make):
            paper.write(json.dumps(asdict(outcome)) + "\n")
            paper.flush()
        paper.write("\n")
    os._exit(0)  # simulators may hang in their clean-up
