"""The first plan of a run: static and simple, from the graph and the machine alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ebrl.errors import PlanError
from ebrl.graph.compile import compile_graph, stream_cycles
from ebrl.graph.model import Graph, Node, SimulatorRef
from ebrl.graph.plan import Plan, Quota, StagePlan
from ebrl.graph.schedules import EXCLUSIVE, HALVES, IN_TURN, Schedule, declared, mechanisms
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool

DEFAULT_STALENESS = 1
_FEW_CORES = 4


def first_plan(graph: Graph, pool: ResourcePool, schedule: str = "ebrl", without: Sequence[str] = ()) -> Plan:
    """Simulation gets every core, or as many as it asks for; generation, training and other stages share these
    cores, one thread each.

    With more than four cores training gets a quarter of them as threads; with fewer one, so that every
    schedule computes the same bits. without: mechanisms that the schedule is to do without. PlanError where a stage
    asks for more than the pool has, or the schedule for more devices.
    """
    rules = declared(schedule, without)
    check_resources(graph, pool)
    order = compile_graph(graph)
    gpus = _gpus(graph, pool, schedule, rules)
    return Plan(
        workflow=graph.name,
        schedule=schedule,
        without=mechanisms(without),
        max_staleness=_max_staleness(graph) if rules.overlap else 0,
        step_barrier=rules.step_barrier,
        groups=rules.groups,
        rebinding=rules.rebinding,
        stages=tuple(_stage_plan(graph, graph.nodes[name], pool, gpus[name], rules) for name in order.stages),
        loops=order.loops,
        notes=tuple(_notes(graph, pool, rules)),
    )


def check_resources(graph: Graph, pool: ResourcePool) -> None:
    """Raise PlanError, saying what exists, where a stage asks for resources that the pool does not have."""
    for node in graph.nodes.values():
        asked = node.stage.resources
        cpus = float(len(pool.cores))
        if asked.gpus is not None and asked.gpus > len(pool.gpus):
            _refuse(node, f"gpus={asked.gpus:g}", _gpus_text(pool))
        if asked.cpus is not None and asked.cpus > cpus:
            quota = "" if pool.cpu_quota is None else f" under a cgroup quota of {pool.cpu_quota:g}"
            _refuse(node, f"cpus={asked.cpus:g}", f"{len(pool.cores)} core(s){quota}")
        if asked.memory_mib is not None and pool.memory_mib is not None and asked.memory_mib > pool.memory_mib:
            _refuse(node, f"memory_mib={asked.memory_mib}", f"{pool.memory_mib} MiB of memory")
    total = sum((node.stage.resources.memory_mib or 0) * _replicas(node) for node in graph.nodes.values())
    if pool.memory_mib is not None and total > pool.memory_mib:
        raise PlanError(
            f"the stages ask for {total} MiB of memory together, this machine has {pool.memory_mib} MiB",
            where=graph.name,
            place=graph.place,
            hint="lower memory_mib or replicas",
        )


def _refuse(node: Node, asked: str, exists: str) -> None:
    raise PlanError(
        f"asks for {asked}, this machine has {exists}",
        where=node.name,
        place=node.stage.place,
        hint=f"lower {asked.partition('=')[0]} in its decorator, or run on a machine that has it",
    )


def _gpus_text(pool: ResourcePool) -> str:
    if not pool.gpus:
        return "no GPU"
    return f"{len(pool.gpus)} GPU(s): {', '.join(gpu.name or gpu.uuid for gpu in pool.gpus)}"


def _gpus(graph: Graph, pool: ResourcePool, schedule: str, rules: Schedule) -> dict[str, tuple[str, ...]]:
    """Device UUIDs by stage, of those that ask for any."""
    if rules.devices == IN_TURN:
        return {name: _uuids(pool.gpus if node.stage.resources.gpus else ()) for name, node in graph.nodes.items()}
    if rules.devices == HALVES:
        return _halves(graph, pool, schedule)
    if rules.devices == EXCLUSIVE and (asked := _asked(graph)) > len(pool.gpus):
        raise PlanError(
            f"the stages ask for {asked} GPUs together, this machine has {_gpus_text(pool)}, and no two stages may "
            "share one",
            where=graph.name,
            place=graph.place,
            hint="the schedules ebrl and sync share devices, with colocated stages take turns on them",
        )
    return _handed_out(graph, pool)


def _halves(graph: Graph, pool: ResourcePool, schedule: str) -> dict[str, tuple[str, ...]]:
    """A half for the simulation, the other one for the generation, all for other stages. Where simulators need no
    device, the generation has all."""
    asking = {name: node.stage.kind for name, node in graph.nodes.items() if node.stage.resources.gpus}
    shares = {name: _uuids(pool.gpus if name in asking else ()) for name in graph.nodes}
    if not {"simulation", "generation"} <= set(asking.values()):
        return shares
    half = len(pool.gpus) // 2
    if not half:
        raise PlanError(
            f"the schedule {schedule} needs a GPU for the simulation and one for the generation, this machine has "
            f"{_gpus_text(pool)}",
            where=graph.name,
            place=graph.place,
            hint="with the schedule colocated all stages take turns on one",
        )
    parts = {"simulation": _uuids(pool.gpus[:half]), "generation": _uuids(pool.gpus[half:])}
    return {name: parts.get(asking.get(name, ""), share) for name, share in shares.items()}


def _uuids(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    return tuple(gpu.uuid for gpu in gpus)


def _asked(graph: Graph) -> int:
    """GPUs of all stages together."""
    return sum(math.ceil(node.stage.resources.gpus or 0) for node in graph.nodes.values())


def _handed_out(graph: Graph, pool: ResourcePool) -> dict[str, tuple[str, ...]]:
    """In turn: stages share a device only where there are too few."""
    shares: dict[str, tuple[str, ...]] = {}
    start = 0
    for name, node in graph.nodes.items():
        count = math.ceil(node.stage.resources.gpus or 0)
        shares[name] = tuple(pool.gpus[(start + number) % len(pool.gpus)].uuid for number in range(count))
        start += count
    return shares


def _stage_plan(graph: Graph, node: Node, pool: ResourcePool, gpus: tuple[str, ...], rules: Schedule) -> StagePlan:
    return StagePlan(
        name=node.name,
        kind=node.stage.kind,
        replicas=_replicas(node),
        quota=_quota(node, pool, gpus),
        batch_size=_batch_size(graph, node, rules),
    )


def stage_cores(node: Node, pool: ResourcePool) -> tuple[int, ...]:
    """The cores of one machine that a stage may use: all, or as many as its ``cpus`` ask for."""
    asked = node.stage.resources.cpus
    return pool.cores if asked is None else pool.cores[: math.ceil(asked)]


def may_bind(node: Node, pool: ResourcePool) -> bool:
    """Whether the environments of `node` are bound to the cores that they are granted on the machine of `pool`.

    Only where the stage has the machine to itself: bound to a few of many cores, two runs would meet on
    the same ones while others are free.
    """
    has_simulator = node.reference(SimulatorRef) is not None
    return has_simulator and pool.pinning and pool.cpu_quota is None and stage_cores(node, pool) == pool.cores


def _quota(node: Node, pool: ResourcePool, gpus: tuple[str, ...]) -> Quota:
    asked = node.stage.resources
    cores = stage_cores(node, pool)
    threads = 1
    if node.stage.kind != "simulation" and asked.cpus is not None:
        threads = max(1, int(asked.cpus))
    elif node.stage.kind == "training" and len(cores) > _FEW_CORES:
        threads = len(cores) // 4
    return Quota(
        cores=cores,
        bound=may_bind(node, pool),
        threads=threads,
        gpus=gpus,
        memory_mib=asked.memory_mib,
    )


def _batch_size(graph: Graph, node: Node, rules: Schedule) -> int:
    if node.stage.kind == "generation":
        environments = _environments(graph, node, "observations")
        if rules.step_barrier:  # the environments of one replica that wait for one another
            environments = math.ceil(math.ceil(environments / _replicas(graph.of_kind("simulation")[0])) / rules.groups)
        # On a GPU a batch takes as long as a chunk: half of the environments step while the others are served.
        # A policy on the CPU is quicker than a step, and the batcher never lets a core wait for a fuller batch.
        alternate = not rules.step_barrier and bool(node.stage.resources.gpus)
        return node.options["batch_size"] or (math.ceil(environments / 2) if alternate else environments)
    if node.stage.kind == "training":
        return node.options["batch"] or _environments(graph, node, "trajectories")
    return 1


def _environments(graph: Graph, node: Node, output: str) -> int:
    """Environments of the simulations whose `output` reaches the batched inputs of the stage, also through others."""
    resident = {name for members in stream_cycles(graph) for name in members}
    ports = {port.name for port in node.stage.inputs if port.batched}
    feeding: set[str] = set()
    seen: set[str] = set()
    ahead = [edge for edge in graph.inputs(node.name) if edge.input in ports and not edge.latest]
    while ahead:
        edge = ahead.pop()
        source = graph.nodes[edge.source]
        if source.stage.kind == "simulation":
            feeding |= {source.name} if edge.output == output else set()
        elif source.name not in seen and source.name not in resident:
            seen.add(source.name)
            ahead += [edge for edge in graph.inputs(source.name) if not edge.latest]
    return max(1, sum(int(graph.nodes[name].options["num_envs"]) for name in feeding))


def _replicas(node: Node) -> int:
    return int(node.options.get("replicas") or 1)


def _max_staleness(graph: Graph) -> int:
    """The tightest bound of the registers from which generation takes its weights."""
    generations = {node.name for node in graph.of_kind("generation")}
    bounds = [edge.max_staleness for edge in graph.edges if edge.latest and edge.target in generations]
    return min(bounds, default=DEFAULT_STALENESS)


def _notes(graph: Graph, pool: ResourcePool, rules: Schedule) -> Iterable[str]:
    if not pool.pinning:
        yield "cores are advisory: processes cannot be bound to cores here"
    if pool.cpu_quota is not None and pool.cpu_quota != len(pool.cores):
        yield f"the cgroup quota of {pool.cpu_quota:g} cores leaves {len(pool.cores)} core(s) to plan with"
    asked = _asked(graph)
    if asked and rules.devices in (IN_TURN, HALVES):
        yield "stages take turns on GPUs, but keep their memory there meanwhile: a run offloads nothing"
    elif asked > len(pool.gpus):
        yield f"stages ask for {asked} GPUs together and share {len(pool.gpus)}; nothing divides them yet"
    for node in graph.nodes.values():
        gpus = node.stage.resources.gpus
        if gpus is not None and gpus != int(gpus):
            yield f"{node.name}: the share of {gpus:g} GPU is advisory, nothing enforces it yet"
        if _replicas(node) > 1:
            divided = node.stage.kind == "simulation" and len(stage_cores(node, pool)) >= _replicas(node)
            yield f"{node.name}: its {_replicas(node)} replicas {'divide' if divided else 'share'} their cores"
