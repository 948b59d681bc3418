"""One repetition of one variant of `rollout_throughput.py`; its argument is the order as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any


def main(order: dict[str, Any]) -> dict[str, Any]:
    """order: task, workflow settings, variant, seed, skip, measure_s."""
    from rollout_task import rollout_task

    task = rollout_task(order["task"], **order["settings"])
    variant, options = order["variant"], {"seed": order["seed"], "measure_s": order["measure_s"]}
    if variant == "limit":
        import simulators_alone

        return simulators_alone.measure(task, **options)
    options["skip"] = order["skip"]
    if variant == "ebrl":
        import ebrl_training

        return ebrl_training.measure(task, schedule="ebrl", **options)
    import rollout_peers

    return rollout_peers.measure(task, peer=variant, **options)


if __name__ == "__main__":
    from rounds import answer

    answer(main(json.loads(sys.argv[1])))
