"""Placement: which node gets which replica of a plan, and what each replica is told. Plan in, assignments out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import cloudpickle

from ebrl.backends.protocols import Share
from ebrl.backends.registry import registered
from ebrl.graph.model import Graph, PolicyRef
from ebrl.graph.plan import Plan, StagePlan, replica_cores, replica_gpus, request_size
from ebrl.graph.schedules import HALVES, IN_TURN, declared
from ebrl.planner.first_plan import may_bind, stage_cores
from ebrl.resources.gpus import Gpu
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.assignment import Assignment, program
from ebrl.runtime.checkpoint import Checkpoint
from ebrl.runtime.cluster import WorkerSpec
from ebrl.runtime.preload import LOGS

INSIDE = "EBRL_WORKER"
"""Environment variable of stage workers and what they start: no run may begin there."""


def ranked(pools: Mapping[str, ResourcePool]) -> list[str]:
    """The nodes, the one with most GPUs, then most cores, first: it trains and generates."""
    return sorted(pools, key=lambda node: (len(pools[node].gpus), len(pools[node].cores)), reverse=True)


def place(plan: Plan, nodes: Sequence[str]) -> dict[str, str]:
    """Worker -> node. `nodes` begins with the one that trains and generates; simulation goes to the others first."""
    hosts = [*nodes[1:], nodes[0]]
    return {
        worker: hosts[number % len(hosts)] if stage.kind == "simulation" else nodes[0]
        for stage in plan.stages
        for number, worker in enumerate(stage.workers())
    }


@attrs.define(frozen=True, kw_only=True)
class Placement:
    """A plan on nodes."""

    graph: Graph
    plan: Plan
    pools: Mapping[str, ResourcePool]
    """By node; the key of the driver's own machine is empty."""
    places: Mapping[str, str]
    """Worker -> node, see `place`."""
    home: str = ""
    """The node that `plan` was made for: it trains and generates."""

    def assignments(
        self, *, run: str, label: str, seed: int, logs: str, saved: Checkpoint | None
    ) -> dict[str, list[Assignment]]:
        """Stage -> what each of its replicas is told. `logs`: folder for the logs of workers on this machine."""
        simulation = self.graph.of_kind("simulation")[0]
        shared: dict[str, Any] = {
            "run": run,
            "label": label,
            "seed": seed,
            "packed_program": cloudpickle.dumps(program(simulation)),
            "chunk": _chunk(self.graph),
            "request_size": request_size(self.plan),
            "max_staleness": self.plan.max_staleness,
            "step_barrier": self.plan.step_barrier,
            "groups": self.plan.groups,
            "rebinding": self.plan.rebinding,
            "path": [self.graph.folder] if self.graph.folder else [],
            "backends": registered(),
        }
        return {
            stage.name: [
                Assignment(
                    stage=self._on_node(stage, replica),
                    replica=replica,
                    packed_node=cloudpickle.dumps(self.graph.nodes[stage.name]),
                    source_file=self.graph.nodes[stage.name].stage.function.__code__.co_filename,
                    log_folder=None if self.places[worker] else logs,
                    shares=self._shares(stage, replica),
                    sources=self._sources(stage, self.places[worker]),
                    restored={} if saved is None else _of_stage(saved, stage, self.plan),
                    **shared,
                )
                for replica, worker in enumerate(stage.workers())
            ]
            for stage in self.plan.stages
        }

    def workers(self, assignments: Mapping[str, Sequence[Assignment]]) -> dict[str, list[WorkerSpec]]:
        """Node -> the Dask workers to start there."""
        found: dict[str, list[WorkerSpec]] = {}
        for replicas in assignments.values():
            for replica in replicas:
                found.setdefault(self.places[replica.worker], []).append(worker_spec(self.plan, replica))
        return found

    def _on_node(self, stage: StagePlan, replica: int) -> StagePlan:
        """The plan was made for the node that trains; a simulation gets the cores of the node that simulates."""
        if stage.kind != "simulation":
            return stage
        node, here = self.graph.nodes[stage.name], self.places[f"{stage.name}-{replica}"]
        quota = stage.quota
        if here != self.home:
            pool = self.pools[here]
            quota = attrs.evolve(quota, cores=stage_cores(node, pool), bound=may_bind(node, pool))
        beside = [other for other, worker in enumerate(stage.workers()) if self.places[worker] == here]
        cores = replica_cores(attrs.evolve(stage, quota=quota), replica, beside)
        return attrs.evolve(stage, quota=attrs.evolve(quota, cores=cores))

    def _shares(self, stage: StagePlan, replica: int) -> list[tuple[Gpu, Share]]:
        """What a replica has of every device that the plan divides."""
        quota, own = stage.quota, replica_gpus(stage, replica)
        if not quota.sm_percent:
            return []
        memory_mib = quota.gpu_memory_mib or (None,) * len(quota.gpus)
        gpus = {gpu.uuid: gpu for gpu in self.pools[self.home].gpus}
        in_turn = declared(self.plan.schedule, self.plan.without).devices in (IN_TURN, HALVES)
        return [
            (
                gpus[uuid],
                Share(uuid, percent, memory_mib=memory, model=gpus[uuid].name or "", in_turn=in_turn),
            )
            for uuid, percent, memory in zip(quota.gpus[own], quota.sm_percent[own], memory_mib[own], strict=True)
        ]

    def _sources(self, stage: StagePlan, here: str) -> dict[str, bool]:
        if stage.kind != "generation":
            return {}
        simulations = [self.plan.stage(node.name) for node in self.graph.of_kind("simulation")]
        return {worker: self.places[worker] != here for source in simulations for worker in source.workers()}


def worker_spec(plan: Plan, assignment: Assignment) -> WorkerSpec:
    """The Dask worker of one stage replica: its annotations, and room for every credit that may wait."""
    threads = {"simulation": plan.max_staleness + 3, "generation": 4}.get(assignment.stage.kind, 1)
    quota = assignment.stage.quota
    resources: dict[str, float] = {"CPU": float(len(quota.cores)), assignment.tag: float(threads)}
    environment = {INSIDE: assignment.tag}
    if assignment.log_folder is not None:
        environment[LOGS] = assignment.log_folder
    if gpus := quota.gpus[replica_gpus(assignment.stage, assignment.replica)]:
        resources["GPU"] = float(len(gpus))
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    return WorkerSpec(
        name=assignment.tag, resources=resources, threads=threads, environment=environment, memory_mib=quota.memory_mib
    )


def _of_stage(saved: Checkpoint, stage: StagePlan, plan: Plan) -> dict[str, Any]:
    """The part of a checkpoint that one stage needs; the weights go to the trainer alone, as an argument."""
    kept: dict[str, Any] = {"iteration": saved.iteration}
    if stage.kind == "simulation" and plan.max_staleness == 0:
        kept["positions"] = saved.positions
    elif stage.name in saved.states:
        kept["state"] = saved.states[stage.name]
    return kept


def _chunk(graph: Graph) -> int:
    """K, the actions of one chunk, as the policy was declared."""
    policies = [
        value for node in graph.nodes.values() for value in node.values.values() if isinstance(value, PolicyRef)
    ]
    return int(policies[0].options.get("chunk", 1)) if policies else 1
