"""A schedule on a machine that is not here: stages take as long as a profile says, and nobody computes anything.

``ebrl.launch(emulated(), resources=...)`` wants an emulated machine, see `ebrl.backends.accelerators.emulated`. One
without a profile of your own tries RoboCasa with a pi0 policy, as calibrated for the paper (`profiles/paper`).
"""

from __future__ import annotations

import math
from pathlib import Path

import ebrl
import ebrl.profiles
from ebrl.backends.simulators.emulated_costs import p99_of
from ebrl.errors import UsageError
from ebrl.planner.costs import CPU
from ebrl.planner.profile import Profile, read_profile
from ebrl.rehearse.truth import TrueCosts
from ebrl.stages import generate, simulate, train_emulated

PROFILE = str(Path(ebrl.profiles.__file__).with_name("paper") / "robocasa_openpi.json")


@ebrl.workflow
def emulated(
    profile: str = PROFILE,
    num_envs: int = 64,
    num_steps: int = 30,
    batch: int | None = None,
    iterations: int = 20,
    max_staleness: int = 1,
) -> None:
    """Nothing is learnt: it shows how fast a schedule is.

    profile: path of the costs. num_steps: chunk-steps of a trajectory window; batch: windows of an iteration, one per
    environment where it is left out.
    """
    costs = read_profile(Path(profile))
    policy = ebrl.policy("emulated", profile=profile, chunk=costs.chunk)
    actions = ebrl.stream(ebrl.ActionChunk)
    weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
    observations, trajectories = simulate(simulator(costs), actions, num_envs=num_envs, num_steps=num_steps)
    actions <<= generate(policy, observations, weights)
    weights <<= train_emulated(policy, trajectories, iterations=iterations, batch=batch)


def simulator(profile: Profile) -> str:
    """The address of emulated environments whose chunks, resets and episodes are those of `profile`. Steps vary
    independently, so that a chunk of them varies as it should. UsageError for simulators that compute on devices."""
    costs, chunk = TrueCosts.of_profile(profile), profile.chunk
    if costs.simulation.devices():
        raise UsageError(
            f"the environments of {profile.workflow} compute on devices, and emulated ones have cores only",
            hint="ebrl rehearse knows what they take there",
        )
    table = costs.simulation.on(CPU)
    chunk_s = 0.0 if table is None else table.core_s(1, 1)
    sigma = math.sqrt(math.log1p(chunk * math.expm1(costs.simulation_sigma**2)))
    options: dict[str, float] = {
        "step_s": chunk_s / chunk,
        "step_p99_s": p99_of(chunk_s / chunk, sigma),
        "reset_s": costs.reset_s,
        "reset_p99_s": p99_of(costs.reset_s, costs.simulation_sigma),
    }
    if math.isinf(costs.episode):
        options["horizon"] = 1 << 30
    else:
        options["horizon"] = math.ceil(costs.episode * (1 + costs.episode_spread)) * chunk
        options |= {"length": costs.episode * chunk, "length_spread": costs.episode_spread}
    return "emulated:constant?" + "&".join(f"{name}={value!r}" for name, value in options.items())
