"""Problems: the paper's configurations on its machines, as the allocator and a rehearsal take them.

``case("libero_gr00t", "ppo", gpus=8)`` has the problem and the costs. Machines grow in nodes; environments and
chunk-steps of an iteration grow with the devices.
"""

from __future__ import annotations

from functools import cache

import attrs
from calibration import FOLDER
from configurations import CONFIGURATIONS, Configuration
from testbeds import CORES, PER_NODE, SIMULATING

from ebrl.planner.costs import CPU
from ebrl.planner.problem import SIMULATION, Core, Device, Node, Problem
from ebrl.planner.profile import Profile, read_profile
from ebrl.rehearse.truth import TrueCosts
from ebrl.resources.machine_spec import KNOWN

RT_CORES = ("RTX4090", "L40S")
"""Of the devices that are known, those that trace rays."""


@attrs.define(frozen=True, kw_only=True)
class Case:
    """One experiment."""

    name: str
    """Of its configuration."""
    algorithm: str
    """``ppo`` or ``grpo``."""
    gpus: int
    """That generate and train."""
    model: str
    profile: Profile
    truth: TrueCosts
    problem: Problem
    """With the true costs."""


def case(
    name: str,
    algorithm: str = "ppo",
    *,
    gpus: int = 8,
    model: str = "H100",
    horizons: int | None = None,
    environments: int | None = None,
) -> Case:
    """An experiment on `gpus` devices of `model`; KeyError for a configuration, algorithm or model that is not known.

    horizons: how often an environment goes through a whole horizon in one iteration, if not as often as calibrated:
    fewer make a rehearsal shorter, and whatever happens once an iteration dearer. environments: if not as many for each
    device as calibrated.
    """
    configuration, profile = CONFIGURATIONS[name], known(name)
    set_up = configuration.set_ups[algorithm]
    environments = environments or max(1, round(set_up.environments.value * gpus / PER_NODE.value))
    nodes, quota = _machines(configuration, gpus, model)
    truth = TrueCosts.of_profile(profile)
    bare = Problem(
        nodes=nodes,
        simulation=truth.simulation,
        generation=truth.generation,
        training=truth.training,
        environments=environments,
        iteration=environments * configuration.window * (horizons or round(set_up.epochs.value)),
        window=configuration.window,
        rt_cores=configuration.simulator.rt_cores,
        core_quotas={SIMULATION: quota},
    )
    return Case(
        name=name,
        algorithm=algorithm,
        gpus=gpus,
        model=model,
        profile=profile,
        truth=truth,
        problem=truth.told(bare),
    )


@cache
def known(name: str) -> Profile:
    """The committed profile of a configuration."""
    return read_profile(FOLDER / f"{name}.json")


def _machines(configuration: Configuration, gpus: int, model: str) -> tuple[tuple[Node, ...], frozenset[Core]]:
    """(nodes, cores that simulate). Where the simulator has nodes of its own it has none of the other cores."""
    if KNOWN[model].name not in known_models():
        raise KeyError(model)
    nodes = _nodes("node", gpus, model)
    simulating = nodes
    if configuration.rendering_nodes:
        simulating = _nodes("rendering", gpus, configuration.simulator.models[0])
        nodes += simulating
    quota = {
        (node.name, core) for node in simulating for core in node.cores[: round(SIMULATING.value * len(node.devices))]
    }
    return nodes, frozenset(quota)


def known_models() -> tuple[str, ...]:
    """Devices on which the policies have costs."""
    return tuple(model for model in known("libero_gr00t").costs("generation").tables if model != CPU)


def _nodes(name: str, gpus: int, model: str) -> tuple[Node, ...]:
    gpu, whole = KNOWN[model], round(PER_NODE.value)
    sizes = [min(whole, gpus - before) for before in range(0, gpus, whole)]
    return tuple(
        Node(
            name=f"{name}-{number}",
            cores=tuple(range(round(CORES.value * size))),
            devices=tuple(
                Device(
                    uuid=f"{name}-{number}-{index}",
                    model=str(gpu.name),
                    memory_mib=float(gpu.memory_mib or 0),
                    rt_cores=model in RT_CORES,
                )
                for index in range(size)
            ),
        )
        for number, size in enumerate(sizes)
    )
