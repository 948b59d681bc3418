"""Calibration: profiles of the paper's configurations from published figures, without any of its machines.

``python benchmarks/paper/calibration.py`` writes ``profiles/paper/*.json`` and their README. The constants are in
`testbeds`, `policies`, `simulators` and `configurations`; here is what becomes of them. All were fixed before anything
was compared with what the paper reports, and none may be changed to come nearer to it.

A call of a policy with b observations on a share s of a device takes

    launch + b * (prepare + compute / (what the device reaches * s ** SM_EXPONENT))

and an iteration with n chunk-steps on it ``optimizer + n * compute / (...)``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from calibration_report import readme
from configurations import CONFIGURATIONS
from figure import Figure
from policies import Policy
from simulators import Simulator
from testbeds import (
    ACCELERATORS,
    CORES,
    EPISODE,
    EPISODE_SPREAD,
    GENERATION_SIGMA,
    PER_NODE,
    SIMULATING,
    SM_EXPONENT,
    SWAP_GB_S,
    SYNC_GB_S,
    SYNC_S,
    TRAINING_SIGMA,
)

from ebrl.observe.records import plain
from ebrl.planner.costs import CPU
from ebrl.planner.profile import P99, Measured, Profile
from ebrl.resources.machine_spec import KNOWN

FOLDER = Path(__file__).parents[2] / "profiles" / "paper"
PERCENTS = (10, 20, 40, 70, 100)
BATCHES = (1, 64)
"""Observations of a call: it is linear in their number."""
PARTS = (16, 4096)
"""Chunk-steps of an iteration on one device, likewise."""
_GIB = 1024


def profile(name: str) -> Profile:
    """The profile of one of `CONFIGURATIONS`, with the sizes of PPO on 8 devices."""
    configuration = CONFIGURATIONS[name]
    policy, simulator = configuration.policy, configuration.simulator
    environments = round(configuration.set_ups["ppo"].environments.value)
    return Profile(
        workflow=f"paper_{name}",
        machine="testbeds of the EBRL paper",
        cores=round(CORES.value * PER_NODE.value),
        simulator=simulator.uri,
        policy=policy.spec,
        versions={},
        created="2026-12-03T00:00:00+0000",
        environments=environments,
        chunk=round(configuration.chunk.value),
        iteration=configuration.iteration("ppo", environments),
        window=configuration.window,
        stages={
            "simulation": tuple(_simulation(simulator, round(configuration.chunk.value))),
            "generation": tuple(_generation(policy)),
            "training": tuple(_training(policy)),
        },
        episode=EPISODE.value * configuration.window,
        episode_spread=EPISODE_SPREAD.value,
        reset_s=simulator.reset.value,
        swap_s=_rounded((policy.trained.value + policy.weights.value) * 1.074 / SWAP_GB_S.value),
        publish_s=_rounded(policy.weights.value * 1.074 / SYNC_GB_S.value + SYNC_S.value),
        provenance={quantity: figure.line for quantity, figure in figures(name)},
    )


def figures(name: str) -> Iterator[tuple[str, Figure]]:
    """(quantity, figure) of everything that the profile `name` rests on."""
    configuration = CONFIGURATIONS[name]
    yield "chunk", configuration.chunk
    yield "horizon", configuration.horizon
    for algorithm, set_up in configuration.set_ups.items():
        yield f"environments, {algorithm}, 8 devices", set_up.environments
        yield f"horizons of an iteration, {algorithm}", set_up.epochs
    yield "simulation: step", configuration.simulator.step
    yield "simulation: P99 over mean of a step", configuration.simulator.tail
    yield "simulation: step on a device, any share", configuration.simulator.launch
    yield "simulation: step on a device, all SMs", configuration.simulator.render
    yield "simulation: memory", configuration.simulator.memory
    yield "reset_s", configuration.simulator.reset
    yield "episode", EPISODE
    yield "episode_spread", EPISODE_SPREAD
    policy = configuration.policy
    yield f"generation: one observation, {policy.measured_on}", policy.latency
    yield "generation: preparation of one observation", policy.prepare
    yield "generation: compute of one observation", policy.act
    yield "generation: weights", policy.weights
    yield "generation: memory of one more observation", policy.activations
    yield "generation: sigma", GENERATION_SIGMA
    yield "training: compute of one chunk-step", policy.train
    yield "training: optimizer of one iteration", policy.optimizer
    yield "training: state", policy.trained
    yield "training: peak memory", policy.peak
    yield "training: sigma", TRAINING_SIGMA
    for model, accelerator in ACCELERATORS.items():
        yield f"{model}: peak", accelerator.peak
        yield f"{model}: utilisation", accelerator.utilisation
    yield "exponent of the share of SMs", SM_EXPONENT
    yield "swap_s: link", SWAP_GB_S
    yield "publish_s: link", SYNC_GB_S
    yield "publish_s: fixed", SYNC_S
    yield "cores", CORES
    yield "cores that simulate", SIMULATING
    yield "devices of a node", PER_NODE


def launch_s(policy: Policy) -> float:
    """What a call takes whatever its size and share."""
    compute_s = policy.act.value / ACCELERATORS[policy.measured_on].tflops
    return policy.latency.value - policy.prepare.value - compute_s


def chunk_sigma(tail: float, chunk: int) -> float:
    """Of the logarithm of a chunk's duration, where P99 of a step is `tail` times its mean.

    Steps vary independently: their variances add up.
    A lognormal step has P99 / mean = exp(P99 * sigma - sigma ** 2 / 2).
    """
    step = P99 - math.sqrt(P99**2 - 2.0 * math.log(tail))
    return math.sqrt(math.log1p(math.expm1(step**2) / chunk))


def _simulation(simulator: Simulator, chunk: int) -> Iterator[Measured]:
    sigma = chunk_sigma(simulator.tail.value, chunk)
    median = math.exp(-(sigma**2) / 2)
    on_core = chunk * simulator.step.value
    yield _point(CPU, 1, 1, on_core * median, on_core * median, 0.0, sigma)
    for model in simulator.models:
        for percent in PERCENTS:
            step_s = simulator.launch.value + simulator.render.value / _speed(percent)
            yield _point(model, percent, 1, chunk * step_s * median, 0.0, simulator.memory.value, sigma)


def _generation(policy: Policy) -> Iterator[Measured]:
    """The host is busy while it launches and prepares."""
    for model, percent, batch in _grid(BATCHES):
        item_s = policy.prepare.value + policy.act.value / ACCELERATORS[model].tflops / _speed(percent)
        host_s = launch_s(policy) + batch * policy.prepare.value
        memory = policy.weights.value + batch * policy.activations.value
        yield _point(model, percent, batch, launch_s(policy) + batch * item_s, host_s, memory, GENERATION_SIGMA.value)


def _training(policy: Policy) -> Iterator[Measured]:
    """The host is busy all the time, as eager training on a whole device keeps it."""
    for model, percent, part in _grid(PARTS):
        whole_s = part * policy.train.value / ACCELERATORS[model].tflops
        seconds = policy.optimizer.value + whole_s / _speed(percent)
        host_s = policy.optimizer.value + whole_s
        yield _point(model, percent, part, seconds, host_s, policy.peak.value, TRAINING_SIGMA.value)


def _grid(batches: Iterable[int]) -> Iterator[tuple[str, int, int]]:
    return ((model, percent, batch) for model in ACCELERATORS for percent in PERCENTS for batch in batches)


def _speed(percent: int) -> float:
    return float((percent / 100) ** SM_EXPONENT.value)


def _point(
    model: str, quota: int, batch: int, median_s: float, core_s: float, memory_gib: float, sigma: float
) -> Measured:
    return Measured(
        resource=CPU if model == CPU else str(KNOWN[model].name),
        quota=quota,
        batch=batch,
        rate=_rounded(batch / median_s),
        mean_s=_rounded(median_s * math.exp(sigma**2 / 2)),
        p50_s=_rounded(median_s),
        p99_s=_rounded(median_s * math.exp(P99 * sigma)),
        seconds=_rounded(median_s),
        core_s=_rounded(core_s),
        memory_mib=round(memory_gib * _GIB),
        calls=0,
        interval=0.0,
    )


def _rounded(value: float) -> float:
    """Six digits: the same file on every machine."""
    return float(f"{value:.6g}")


def texts() -> Iterator[tuple[str, str]]:
    """(name, text) of every file."""
    for name in CONFIGURATIONS:
        yield f"{name}.json", json.dumps(plain(profile(name)), indent=1) + "\n"
    yield "README.md", readme({name: dict(figures(name)) for name in CONFIGURATIONS})


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)
