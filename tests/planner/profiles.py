"""A profile as `ebrl profile` writes it, of a machine that does not exist."""

from __future__ import annotations

from typing import Any

from ebrl.planner.profile import Measured, Profile


def point(quota: float, batch: int, seconds: float, **changes: Any) -> Measured:
    """One call on the CPU, with all its threads at work."""
    told = {
        "resource": "cpu", "quota": quota, "batch": batch, "rate": batch / seconds, "mean_s": seconds,
        "p50_s": seconds, "p99_s": 2 * seconds, "seconds": seconds, "core_s": quota * seconds, "memory_mib": 300.0,
        "calls": 50, "interval": 0.02, **changes,
    }  # fmt: skip
    return Measured(**told)


def made(**changes: Any) -> Profile:
    """Four environments; a chunk takes 10 ms, a generation call 1 ms and training 1 ms per chunk-step."""
    told = {
        "workflow": "pendulum", "machine": "Slow CPU 2 cores", "cores": 2, "simulator": "gymnasium:Pendulum-v1",
        "policy": "mlp()", "versions": {"ebrl": "0.1.0", "torch": "2.8.0"}, "created": "2026-01-01T00:00:00+0000",
        "environments": 4, "chunk": 1, "iteration": 64,
        "stages": {
            "simulation": (point(1, 1, 0.010), point(2, 1, 0.005)),
            "generation": (point(1, 1, 0.001), point(1, 4, 0.001)),
            "training": (point(1, 32, 0.032), point(1, 64, 0.064)),
        },
        **changes,
    }  # fmt: skip
    return Profile(**told)
