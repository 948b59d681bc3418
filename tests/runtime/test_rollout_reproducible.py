"""In order, the same seed gives the same trajectories, on any number of cores and after a resume."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ebrl.graph.items import Trajectory
from ebrl.runtime.seeding import chunk_seed, reset_seed

from .playing import Play, order, same, shown_seed

IN_ORDER = {"in_order": True}
PURPOSE = reset_seed(0, "simulate", 0, 0)


def _record(cores: int, **settings: Any) -> list[Trajectory]:
    play = Play(
        order("counting.Counting", lengths=(3, 5, 7, 9)),
        num_envs=3,
        num_steps=6,
        chunk=2,
        cores=tuple(range(cores)),
        settings=IN_ORDER | settings,
    )
    with play:
        return [*play.batch(), *play.batch(4)]


def test_any_number_of_cores() -> None:
    one, two, eight, other = _record(1), _record(2), _record(8), _record(2, seed=1)
    assert same(one, two) and same(one, eight)
    assert not same(one, other)


@pytest.mark.parametrize("windows", [1, 2, 3])
def test_a_resumed_rollout_goes_on_where_the_first_was(windows: int) -> None:
    """Windows of 4 chunks against episodes of 3 to 9 steps: within an episode, and at the end of one."""
    simulator = order("succeeding.Succeeding", at=5, ends=False, lengths=(3, 6, 8, 9))
    common: dict[str, Any] = {"num_envs": 2, "num_steps": 4, "chunk": 1}
    with Play(simulator, settings=IN_ORDER, **common) as first:
        for _ in range(windows):
            first.batch()
        positions = pickle.loads(pickle.dumps(first.rollout.positions()))
        before = len(first.episodes)
        expected = [*first.batch(), *first.batch()]
        episodes = first.episodes[before:]
    with Play(simulator, settings=IN_ORDER | {"resume": positions}, **common) as again:
        assert same(expected, [*again.batch(), *again.batch()])
        assert sorted(again.episodes, key=str) == sorted(episodes, key=str)
        assert again.rollout.env_steps == 16


def test_runs_with_different_seeds_share_no_start() -> None:
    starts = []
    for seed in (0, 1):
        with Play(order("counting.Counting"), num_envs=4, num_steps=1, settings=IN_ORDER | {"seed": seed}) as play:
            starts += [shown_seed(trajectory.observations["state"][0]) for trajectory in play.batch()]
    assert sorted(starts) == sorted({reset_seed(seed, "simulate", number, 0) for seed in (0, 1) for number in range(4)})
    assert len(set(starts)) == 8


def test_every_chunk_has_a_seed_of_its_own() -> None:
    """Known from what it is for, so that any actor may spend it."""
    settings = IN_ORDER | {"seed": 3, "numbers": [4, 6]}
    with Play(order("counting.Counting", lengths=(3,)), num_envs=2, num_steps=5, settings=settings) as play:
        for trajectory in play.batch():
            for offset, actions in enumerate(trajectory.actions):
                chunk = trajectory.start + offset
                seed = chunk_seed(3, PURPOSE, trajectory.environment, trajectory.episode, chunk)
                assert actions.tolist() == play.actions(seed).tolist()


def test_environments_have_the_same_starts_wherever_they_run() -> None:
    """Two replicas that share four environments against one that has all of them."""
    found: dict[int, list[Trajectory]] = {}
    for numbers in ([0, 2], [1, 3], [0, 1, 2, 3]):
        simulator = order("counting.Counting", lengths=(3, 4))
        settings = IN_ORDER | {"numbers": numbers}
        with Play(simulator, num_envs=len(numbers), num_steps=5, settings=settings) as play:
            for trajectory in play.batch():
                found.setdefault(trajectory.environment, []).append(trajectory)
    for trajectories in found.values():
        half = len(trajectories) // 2
        assert same(trajectories[:half], trajectories[half:])
