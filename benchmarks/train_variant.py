"""One repetition of one variant of `train_throughput.py`; its argument is the order as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any


def main(order: dict[str, Any]) -> dict[str, Any]:
    """order: task, workflow settings, variant, seed, skip, measure_s."""
    from training_task import TrainingTask

    task = TrainingTask.named(order["task"], **order["settings"])
    variant, options = order["variant"], {"seed": order["seed"], "measure_s": order["measure_s"]}
    if variant == "simulators":
        import simulators_alone

        return simulators_alone.measure(task, **options)
    options["skip"] = order["skip"]
    if variant.startswith("sb3-"):
        import sb3_training

        return sb3_training.measure(task, threads=int(variant.removeprefix("sb3-")), **options)
    import ebrl_training

    return ebrl_training.measure(task, schedule=variant, **options)


if __name__ == "__main__":
    from rounds import answer

    answer(main(json.loads(sys.argv[1])))
