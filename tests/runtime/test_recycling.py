"""Case 20: an environment that leaks is replaced at its limit, between two episodes, and nothing is lost."""

from __future__ import annotations

from .playing import Play, order, same


def test_a_leaking_environment_is_recycled() -> None:
    def play(simulator: str, limit_mib: float, **options: int) -> Play:
        return Play(
            order(simulator, lengths=(3,), **options),
            num_envs=2,
            num_steps=10,
            settings={"in_order": True, "memory_limit_mib": limit_mib},
        )

    with play("counting.Counting", 1.0) as sound:
        expected = [trajectory for _ in range(4) for trajectory in sound.batch()]
        assert sound.rollout.recycling.recycled == 0  # above its limit, but it does not grow
        assert sound.rollout.recycling.largest_mib > 1.0
    with play("leaking.Leaking", 1.0, mib=20) as leaking:
        pids = leaking.rollout.pids()
        found = [trajectory for _ in range(4) for trajectory in leaking.batch()]
        assert leaking.rollout.recycling.recycled >= 4
        assert set(leaking.rollout.pids()).isdisjoint(pids)
        assert not leaking.lost
        assert leaking.rollout.recycling.largest_mib < 200
    assert same(found, expected)
