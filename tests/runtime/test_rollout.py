"""What a rollout records, with sound simulators of all kinds."""

from __future__ import annotations

import contextlib
import gc
import os
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from ebrl.errors import SimulatorError
from ebrl.runtime.seeding import reset_seed

from .playing import Play, order, same, shown_seed


def test_a_trajectory_has_one_more_observation_than_chunks() -> None:
    with Play(order("counting.Counting"), num_steps=5) as play:
        (first,), (second,) = play.batch(), play.batch()
        assert first.observations["state"][:, 2].tolist() == [0, 1, 2, 3, 4, 5]
        assert second.observations["state"][:, 2].tolist() == [5, 6, 7, 8, 9, 10]
        assert first.rewards.tolist() == [[1], [2], [3], [4], [5]]
        assert first.observations["state"][-1, 3] == first.actions.sum()
        assert np.array_equal(first.log_probs[..., 0], -first.actions[..., 0])
        assert (first.terminated, first.truncated, first.success) == (False, False, None)
        assert (second.start, second.episode) == (5, 0)


def test_a_truncated_episode_ends_with_its_own_last_observation() -> None:
    with Play(order("counting.Counting", lengths=(3,)), num_steps=7) as play:
        batch = play.batch()
        assert [len(trajectory) for trajectory in batch] == [3, 3, 1]
        for trajectory in batch[:2]:
            assert trajectory.truncated and not trajectory.terminated
            assert trajectory.observations["state"][-1, 2] == 3
        assert [(e.steps, e.reward, e.success) for e in play.episodes] == [(3, 6.0, None)] * 2
        assert not batch[2].truncated


def test_no_episode_is_glued_to_another() -> None:
    lengths = (3, 5, 7, 9)
    with Play(order("counting.Counting", lengths=lengths), num_envs=4, num_steps=16) as play:
        batches = [play.batch() for _ in range(3)]
    assert [sum(len(trajectory) for trajectory in batch) for batch in batches] == [64, 64, 64]
    for trajectory in (trajectory for batch in batches for trajectory in batch):
        seed = reset_seed(0, "simulate", trajectory.environment, trajectory.episode)
        shown = trajectory.observations["state"]
        assert {shown_seed(row) for row in shown} == {seed}
        assert shown[:, 2].tolist() == list(range(trajectory.start, trajectory.start + len(trajectory) + 1))
        assert trajectory.truncated == (shown[-1, 2] == lengths[seed % 4])


def test_one_reused_array() -> None:
    with Play(order("misshapen.ReusedArray", lengths=(3,)), num_steps=4) as play:
        first, second = play.batch()
        assert first.observations["state"][:, 2].tolist() == [0, 1, 2, 3]
        assert second.observations["state"][:, 2].tolist() == [0, 1]


@pytest.mark.parametrize(("at", "steps"), [(2, [2]), (4, [4]), (5, [4, 1]), (8, [4, 4])])
def test_the_chunk_ends_with_the_episode(at: int, steps: list[int]) -> None:
    with Play(order("succeeding.Succeeding", at=at), num_steps=len(steps), chunk=4) as play:
        (trajectory,) = play.batch()
        assert trajectory.steps.tolist() == steps
        assert trajectory.observations["state"][-1, 2] == at
        assert trajectory.observations["state"][-1, 3] == trajectory.actions.reshape(-1)[:at].sum()
        assert trajectory.rewards.reshape(-1).tolist() == [*range(1, at + 1), *[0] * (4 * len(steps) - at)]
        assert (trajectory.terminated, trajectory.truncated, trajectory.success) == (True, False, True)
        assert [(e.steps, e.success) for e in play.episodes] == [(at, True)]


@pytest.mark.parametrize("at", [2, 4])
def test_a_success_that_does_not_end_the_episode_counts_once(at: int) -> None:
    with Play(order("succeeding.Succeeding", at=at, ends=False, lengths=(8,)), num_steps=4, chunk=4) as play:
        batch = play.batch()
        assert [(len(t), t.success, t.truncated) for t in batch] == [(2, True, True), (2, True, True)]
        assert [e.success for e in play.episodes] == [True, True]


def test_images_text_and_numbers() -> None:
    instructions = ["lift the cube", "hebe den Würfel", ""]
    simulator = order("describing.Describing", instructions=instructions)
    with Play(simulator, num_envs=2, num_steps=2, settings={"in_order": True}) as play:
        for trajectory in play.batch():
            seed = reset_seed(0, "simulate", trajectory.environment, 0)
            assert trajectory.observations["instruction"].tolist() == [instructions[seed % 3]] * 3
            assert trajectory.observations["image"].shape == (3, 4, 4, 3)
            assert trajectory.observations["image"].dtype == np.uint8
            assert trajectory.observations["image"][2].max() == 2
            assert set(trajectory.observations) == {"instruction", "image", "state"}


def test_a_text_that_is_too_long_is_refused() -> None:
    simulator = order("describing.Describing", instructions=["ü" * 257])
    with Play(simulator, settings={"most_restarts": 0}) as play, pytest.raises(SimulatorError) as caught:
        play.batch()
    assert caught.value.message.endswith("observation 'instruction' from reset(): text of more than 512 bytes")


@pytest.mark.parametrize("simulator", ["Printing", "Alarming", "Threading"])
def test_liberties(simulator: str) -> None:
    with Play(order(f"disturbing.{simulator}", lengths=(2,)), num_steps=5) as play:
        assert [len(trajectory) for trajectory in play.batch()] == [2, 2, 1]
        assert not play.lost


def test_thread_pools_fit_the_core() -> None:
    core = min(os.sched_getaffinity(0))
    with Play(order("disturbing.Surroundings"), cores=(core,), settings={"bind": True}) as play:
        assert play.batch()[0].observations["state"][1:, :2].tolist() == [[1, 1]] * 4


def test_a_batch_without_windows_is_complete() -> None:
    with Play(order("counting.Counting")) as play:
        assert play.batch(0) == []


def test_lock_step() -> None:
    """With the barrier every request is for all environments, across episodes of different length."""
    simulator = order("counting.Counting", lengths=(2, 3, 4))
    with Play(
        simulator, num_envs=3, num_steps=6, settings={"step_barrier": True, "in_order": True, "batch_size": 3}
    ) as play:
        play.at_rest()
        play.batch()
        assert play.requests == [(0, 1, 2)] * 6


@pytest.mark.parametrize("rebinding", [True, False])
def test_groups_take_turns(rebinding: bool) -> None:
    simulator = order("counting.Counting", lengths=(2, 3, 4))
    settings = {"step_barrier": True, "groups": 2, "rebinding": rebinding, "in_order": True, "batch_size": 3}
    with Play(simulator, num_envs=5, num_steps=6, settings=settings) as play:
        play.at_rest()
        play.batch()
        assert sorted(play.requests) == [(0, 2, 4)] * 6 + [(1, 3)] * 6


def test_without_rebinding_an_environment_keeps_its_core() -> None:
    settings = {"rebinding": False, "bind": True, "in_order": True}
    with Play(order("counting.Counting"), num_envs=3, settings=settings) as play:
        play.batch(8)
        allowed = [os.sched_getaffinity(pid) for pid in play.rollout.pids()]
        assert allowed == [{0}, {1}, {0}]


def test_lock_step_survives_a_loss() -> None:
    simulator = order("raising.Raising", at=3, seeds=[reset_seed(0, "simulate", 1, 0)])
    with Play(simulator, num_envs=2, num_steps=6, settings={"step_barrier": True, "in_order": True}) as play:
        assert [len(trajectory) for trajectory in play.batch()] == [6, 2]
        assert [len(trajectory) for trajectory in play.batch()] == [6, 6]


def test_every_restart_plays_the_same_episodes() -> None:
    """Also after one that was broken off."""
    simulator = order("counting.Counting", lengths=(3, 5))
    with Play(simulator, num_envs=2, num_steps=None, settings={"in_order": True}) as play:
        seen = []
        for wanted in (6, 2, 6):
            play.rollout.restart()
            play.episodes.clear()
            play.rollout.admit(0, 6, 0)
            play.until(lambda wanted=wanted: len(play.episodes) >= wanted)
            seen.append({(e.environment, e.episode): (e.steps, e.reward) for e in play.episodes})
        assert sorted(seen[0]) == [(environment, episode) for environment in (0, 1) for episode in (0, 1, 2)]
        assert seen[0] == seen[2] and seen[1].items() <= seen[0].items()


def test_a_failed_actor_leaves_nothing_half_done() -> None:
    with Play(order("counting.Counting", lengths=(3,)), num_steps=None) as play:
        play.at_rest()
        answer, play.answer = play.answer, _raise  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError):
            play.rollout.admit(0, 1, 0)
        play.answer = answer  # type: ignore[method-assign]
        play.rollout.restart()
        play.rollout.admit(0, 1, 0)
        play.until(lambda: play.episodes)
        assert play.episodes[0].steps == 3


def _raise(rows: Any) -> None:
    raise ZeroDivisionError


def test_barrier_free_windows_go_to_whoever_is_free() -> None:
    simulator = order("hanging.Slow", step_s=0.3, at=1, seeds=[reset_seed(0, "simulate", 0, 0)])
    with Play(simulator, num_envs=2, num_steps=2) as play:
        play.at_rest()
        batch = play.batch(8)
        assert Counter(trajectory.environment for trajectory in batch)[1] >= 6


def test_simulators_may_close(tmp_path: Path) -> None:
    notes = tmp_path / "closed"
    with Play(order("disturbing.Closing", notes=str(notes))) as play:
        play.at_rest()
    assert notes.read_text() == "closed"


def test_a_simulator_that_does_not_close_is_killed() -> None:
    with Play(order("hanging.HangingClose")) as play:
        play.at_rest()
        pids = play.rollout.pids()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    play.rollout.close()  # twice is fine


def test_shared_memory_has_no_name() -> None:
    with Play(order("counting.Counting")) as play:
        play.batch()
        for pid in ["self", *play.rollout.pids()]:
            maps = Path(f"/proc/{pid}/maps").read_text()
            assert "/memfd:ebrl" in maps and "/dev/shm" not in maps


def test_closing_leaves_no_descriptor_open() -> None:
    def descriptors() -> set[str]:
        found = set()
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(f"{path.name} {path.readlink()}")
        return {entry for entry in found if "memfd" in entry or "/tmp" in entry}

    before = descriptors()
    with Play(order("counting.Counting"), num_envs=2) as play:
        play.at_rest()
    del play
    gc.collect()
    assert descriptors() <= before


READY_MADE = {"module": "ebrl.runtime.birth", "name": "execute"}


@pytest.mark.parametrize(("program", "drawn"), [(READY_MADE, [1, 2, 3]), (None, [1, 5, 7])])
@pytest.mark.parametrize("quantum", [1, 3, None])
def test_nothing_is_drawn_in_the_middle_of_a_chunk(program: Any, drawn: list[int], quantum: int | None) -> None:
    """A stage of the user's may look at every observation, the ready-made one does not."""
    simulator = order("observing.Observing", lengths=(6,))
    if program is not None:
        simulator = attrs.evolve(simulator, program=program)
    with Play(simulator, num_steps=4, chunk=4, settings={"quantum": quantum}) as play:
        first, second = play.batch()
    assert first.observations["drawn"][:, 0].tolist() == second.observations["drawn"][:, 0].tolist() == drawn
    assert first.steps.tolist() == [4, 2]


def test_trajectories_do_not_depend_on_the_quantum() -> None:
    def batches(quantum: int | None) -> Any:
        settings = {"quantum": quantum, "in_order": True}
        with Play(order("counting.Counting", lengths=(3, 9, 14)), num_envs=3, chunk=4, settings=settings) as play:
            return [play.batch() for _ in range(3)]

    one, three, chosen = batches(1), batches(3), batches(None)
    assert all(same(some, others) for some, others in zip(one + one, three + chosen, strict=True))
