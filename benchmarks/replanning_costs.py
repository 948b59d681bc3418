"""The emulated pipeline of `replanning_emulated.py`: what its stages cost before and after the drift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from ebrl.planner.costs import CPU, CostTable, Point, StageCosts
from ebrl.planner.problem import Allocation, Device, Node, Problem
from ebrl.rehearse.truth import TrueCosts

DEVICES, CORES, ENVIRONMENTS, ITERATION = 8, 64, 128, 512
EPISODE, SHORTER, DEARER = 40.0, 0.69, 1.6
"""Chunk-steps of an episode; what is left of it, and how many times as long training takes, after the drift."""
NOISE = {"simulation_sigma": 0.2, "generation_sigma": 0.1, "training_sigma": 0.2, "episode_spread": 0.3}
_PERCENTS, _BATCHES = (10, 25, 50, 75, 100), (1, 8, 64, 512)


def table(fixed_s: float, item_s: float, host_s: float) -> StageCosts:
    """On all SMs; with fewer, speed falls slower than their number, as that of models that leave SMs idle does."""
    points = [
        Point(
            quota=percent,
            batch=batch,
            seconds=(fixed_s + item_s * batch) * (100 / percent) ** 0.7,
            core_s=host_s,
        )
        for percent in _PERCENTS
        for batch in _BATCHES
    ]
    return StageCosts(tables={"gpu": CostTable(points=tuple(points))})


def before() -> TrueCosts:
    """A chunk of 8 steps of 40 ms, resets of 4 s; a policy of the size of GR00T."""
    chunk = CostTable(points=(Point(quota=1, batch=1, seconds=0.32, core_s=0.32),))
    return TrueCosts(
        simulation=StageCosts(tables={CPU: chunk}),
        generation=table(0.1, 0.02, 0.01),
        training=table(0.3, 0.024, 0.3),
        episode=EPISODE,
        reset_s=4.0,
        **NOISE,
    )


def after(costs: TrueCosts) -> TrueCosts:
    """Episodes are shorter, so resets cost a chunk-step more; training takes longer."""
    return attrs.evolve(costs, episode=costs.episode * SHORTER, training=costs.training.corrected(DEARER))


def machine() -> Problem:
    """The problem, as the costs before the drift tell it."""
    costs = before()
    devices = tuple(Device(uuid=f"GPU-{number}", model="gpu") for number in range(DEVICES))
    bare = Problem(
        nodes=(Node(cores=tuple(range(CORES)), devices=devices),),
        simulation=costs.simulation,
        generation=costs.generation,
        training=costs.training,
        environments=ENVIRONMENTS,
        iteration=ITERATION,
        window=ITERATION // ENVIRONMENTS,
    )
    return costs.told(bare)


def neighbours(problem: Problem, allocation: Allocation) -> Iterator[Allocation]:
    """One step away: the batch halved and doubled, a device more or fewer for training, its share a grid step less."""
    for batch in (allocation.batch // 2, allocation.batch * 2):
        if 1 <= batch <= problem.environments:
            yield attrs.evolve(allocation, batch=batch)
    uuids = [device.uuid for device in problem.devices]
    trainers = len(allocation.training)
    for count in (trainers - 1, trainers, trainers + 1):
        for percent in (100, 100 - problem.step_percent, 100 - 2 * problem.step_percent):
            shared = percent < 100
            generation = {uuid: 100 for uuid in uuids[count:]}
            generation |= {uuid: 100 - percent for uuid in uuids[:count]} if shared else {}
            moved: dict[str, Any] = {"training": dict.fromkeys(uuids[:count], percent), "generation": generation}
            if count > 0 and generation:
                yield attrs.evolve(allocation, **moved)
