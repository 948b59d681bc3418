"""Between plans and the allocator's numbers: a plan as an allocation, and an allocation as the next plan."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from ebrl.graph.model import Graph, Node
from ebrl.graph.plan import Plan, StagePlan
from ebrl.planner.costs import StageCosts
from ebrl.planner.first_plan import may_bind, stage_cores
from ebrl.planner.predict import predict
from ebrl.planner.problem import GENERATION, SIMULATION, TRAINING, Allocation, Core, Device, Problem, Shares
from ebrl.planner.problem import Node as Machine
from ebrl.resources.pool import ResourcePool

KINDS = (SIMULATION, GENERATION, TRAINING)


def problem_of(
    graph: Graph,
    plan: Plan,
    pool: ResourcePool,
    *,
    simulation: StageCosts,
    generation: StageCosts,
    training: StageCosts,
    iteration: int,
    others_core_s: float = 0.0,
) -> Problem:
    """What the allocator may decide for `graph` on one machine: its cores, and the GPUs on which some stage has costs.

    Whatever the author of a stage fixed (``cpus=``, ``batch_size=``) stays fixed, and the batch behind a step barrier:
    it is a group of environments. iteration: chunk-steps of one
    training iteration.
    """
    nodes = {kind: graph.of_kind(kind)[0] for kind in KINDS}
    pinned = {}
    for kind in (GENERATION, TRAINING):
        if (cpus := nodes[kind].stage.resources.cpus) is not None:
            pinned[f"{kind}_threads"] = max(1, int(cpus))
    if nodes[GENERATION].options["batch_size"]:
        pinned["batch"] = int(nodes[GENERATION].options["batch_size"])
    elif plan.step_barrier:
        pinned["batch"] = plan.of_kind(GENERATION).batch_size
    return Problem(
        nodes=(Machine(cores=pool.cores, devices=tuple(_devices(pool, simulation, generation, training))),),
        simulation=simulation,
        generation=generation,
        training=training,
        environments=int(nodes[SIMULATION].options["num_envs"]),
        iteration=iteration,
        others_core_s=others_core_s,
        barriers=plan.max_staleness == 0,
        max_staleness=plan.max_staleness,
        window=int(nodes[SIMULATION].options["num_steps"]),
        core_quotas={kind: _here(stage_cores(node, pool)) for kind, node in nodes.items() if _limited(node)},
        pinned=pinned,
    )


def allocation_of(plan: Plan, problem: Problem) -> Allocation:
    """`plan` in the allocator's words. Cores that a stage would have anyway are left out, and devices on which nothing
    has costs."""
    stages = {kind: plan.of_kind(kind) for kind in KINDS}
    cores = {kind: _here(stage.quota.cores) for kind, stage in stages.items()}
    usual = {SIMULATION: problem.cores, GENERATION: problem.first_cores, TRAINING: problem.first_cores}
    usual |= problem.core_quotas
    shares = {kind: _shares(stage, problem) for kind, stage in stages.items()}
    return Allocation(
        **shares,
        generation_replicas=stages[GENERATION].replicas,
        batch=stages[GENERATION].batch_size,
        generation_threads=stages[GENERATION].quota.threads,
        training_threads=stages[TRAINING].quota.threads,
        cores={kind: held for kind, held in cores.items() if held != usual[kind]},
    )


def changed(plan: Plan, allocation: Allocation, graph: Graph, pool: ResourcePool, problem: Problem) -> Plan:
    """The next epoch of `plan`, with what `allocation` of `problem` says. Generation on devices has one replica on
    each; what a stage needs of a device's memory is that of its cost table."""
    stages = tuple(_changed(stage, allocation, graph.nodes[stage.name], pool, problem) for stage in plan.stages)
    return attrs.evolve(plan, epoch=plan.epoch + 1, stages=stages, predicted=predict(problem, allocation).rate)


def _changed(stage: StagePlan, allocation: Allocation, node: Node, pool: ResourcePool, problem: Problem) -> StagePlan:
    if stage.kind not in KINDS:
        return stage
    held = allocation.cores.get(stage.kind)
    cores = stage_cores(node, pool) if held is None else tuple(sorted(core for _, core in held))
    bound = may_bind(node, pool) if held is None else stage.quota.bound
    threads = {GENERATION: allocation.generation_threads, TRAINING: allocation.training_threads}
    quota = attrs.evolve(stage.quota, cores=cores, bound=bound, threads=threads.get(stage.kind, stage.quota.threads))
    shares: Shares = getattr(allocation, stage.kind)
    if shares:
        batch = {GENERATION: allocation.batch, TRAINING: math.ceil(problem.iteration / len(shares))}.get(stage.kind, 1)
        quota = attrs.evolve(
            quota,
            gpus=tuple(shares),
            sm_percent=tuple(shares.values()),
            gpu_memory_mib=tuple(math.ceil(_memory_mib(problem, stage.kind, uuid, batch)) for uuid in shares),
        )
    if stage.kind != GENERATION:
        return attrs.evolve(stage, quota=quota)
    return attrs.evolve(stage, quota=quota, batch_size=allocation.batch, replicas=len(shares) or stage.replicas)


def chunks_per_iteration(graph: Graph, plan: Plan) -> int:
    """Chunk-steps that a training iteration consumes at most: windows of `num_steps` chunk-steps each."""
    simulation = graph.of_kind("simulation")[0]
    return plan.of_kind(TRAINING).batch_size * int(simulation.options["num_steps"])


def _devices(pool: ResourcePool, *costs: StageCosts) -> Iterator[Device]:
    known = {resource for each in costs for resource in each.devices()}
    for gpu in pool.gpus:
        if gpu.name in known:
            memory_mib = math.inf if gpu.memory_mib is None else float(gpu.memory_mib)
            yield Device(uuid=gpu.uuid, model=str(gpu.name), memory_mib=memory_mib)


def _memory_mib(problem: Problem, kind: str, uuid: str, batch: int) -> float:
    """What a stage needs on a device; 0 where nothing is known of it there."""
    costs: StageCosts = getattr(problem, kind)
    model = next(device.model for device in problem.devices if device.uuid == uuid)
    table = costs.on(model)
    return 0.0 if table is None else table.memory_mib(batch)


def _shares(stage: StagePlan, problem: Problem) -> Shares:
    """A device that is not divided counts whole."""
    known = {device.uuid for device in problem.devices}
    quota = stage.quota
    percents = quota.sm_percent or (100,) * len(quota.gpus)
    return {uuid: percent for uuid, percent in zip(quota.gpus, percents, strict=True) if uuid in known}


def _limited(node: Node) -> bool:
    cpus = node.stage.resources.cpus
    return cpus is not None and math.ceil(cpus) > 0


def _here(cores: tuple[int, ...]) -> frozenset[Core]:
    return frozenset(("", core) for core in cores)
