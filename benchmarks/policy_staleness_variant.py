"""One repetition of one variant of `policy_staleness.py`; its argument is the order as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any


def main(order: dict[str, Any]) -> dict[str, Any]:
    """order: task, workflow settings, schedule, seed, skip, measure_s."""
    from policy_staleness_task import measure
    from training_task import TrainingTask

    task = TrainingTask.named(order["task"], **order["settings"])
    return measure(task, **{name: order[name] for name in ("schedule", "seed", "skip", "measure_s")})


if __name__ == "__main__":
    from rounds import answer

    answer(main(json.loads(sys.argv[1])))
