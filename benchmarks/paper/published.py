"""What the EBRL paper (arXiv 2609.27547) reports, to compare rehearsals with. But for `STEP_S` nothing of it was
used to calibrate.

Its abstract confirms the range of speed-ups and the convergence; the rest are figures that this project noted from it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

SOURCE = "EBRL, arXiv 2609.27547"
ABSTRACT = f"{SOURCE}, abstract"


@attrs.define(frozen=True)
class Reported:
    """One or several numbers of the paper."""

    what: str
    values: Mapping[str, float]
    source: str = SOURCE


RANGE = Reported(
    "rollout throughput over the strongest baseline of each configuration", {"least": 1.30, "most": 3.47}, ABSTRACT
)
CONVERGENCE = Reported("how much sooner 98 % success is reached than with sync", {"sync": 2.5}, ABSTRACT)
SPEEDUPS = {
    ("robocasa_openpi", "grpo"): Reported(
        "throughput over the baseline", {"colocated": 2.20, "hybrid": 3.45, "async": 1.71}
    ),
    ("maniskill_openvla_oft", "grpo"): Reported(
        "throughput over the baseline", {"colocated": 1.90, "hybrid": 2.39, "async": 1.48}
    ),
}
"""By configuration and algorithm, as in `configurations`; of the others only `RANGE` is known."""
ABLATIONS = Reported(
    "throughput without a mechanism, as a share of that with all (`MECHANISMS` of ebrl.graph.schedules)",
    {"allocation": 0.90, "pipeline": 0.69, "overlap": 0.74},
)
SCALING = Reported(
    "throughput by GPUs, in a unit that is not known here: ratios are what can be compared",
    {"1": 0.19, "2": 0.44, "4": 0.84, "8": 1.67, "16": 3.19},
)
REBINDING = Reported("chunk latency without core rebinding over that with it", {"mean": 1.61, "P50": 1.61, "P99": 1.53})
TAIL = Reported("P99 over P50 of chunk latency with rebinding, at most", {"P99/P50": 1.063})
REBINDING_S = Reported("time of one rebinding, less than", {"seconds": 0.001})
PINNING = Reported("throughput with pinned cores over without", {"libero": 1.38, "robocasa": 1.97, "behavior": 1.60})
STEP_S = Reported(
    "duration of a simulator's step; the calibration of LIBERO rests on it", {"mean": 0.040, "P99": 0.060}
)
