"""Case 11: what an environment does after the end of an episode makes no difference to its trajectories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import Autoreset

from ebrl.backends.simulators.gymnasium import GymnasiumSimulator

Trajectory = list[tuple[Any, ...]]


class Walk(gymnasium.Env[Any, Any]):
    """Adds up actions from a random start; solved, and over, beyond 2. Truncated after 6 steps."""

    action_space = spaces.Box(-1, 1, (1,))
    observation_space = spaces.Dict(position=spaces.Box(-9, 9, (1,)), steps=spaces.Box(0, 9, (1,)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position, self.steps = self.np_random.uniform(0, 1, 1).astype(np.float32), 0
        return self.look(), {}

    def step(self, action: Any) -> Any:
        self.position = self.position + action
        self.steps += 1
        solved = bool(self.position[0] > 2)
        return self.look(), float(self.position[0]), solved, self.steps >= 6, {"is_success": solved}

    def look(self) -> dict[str, Any]:
        return {"position": self.position, "steps": np.array([self.steps], np.float32)}


class SameStep(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Begins the next episode in the step that ends one."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            following, _ = self.env.reset()
            return following, reward, terminated, truncated, {"final_observation": observation, "final_info": info}
        return observation, reward, terminated, truncated, info


def vector(mode: AutoresetMode, copy: bool = True) -> Callable[..., SyncVectorEnv]:
    return lambda num_envs: SyncVectorEnv([Walk] * num_envs, autoreset_mode=mode, copy=copy)


MAKERS: dict[str, dict[str, Any]] = {
    "single": {"entry_point": Walk},
    "single, next step": {"entry_point": lambda: Autoreset(Walk())},
    "single, same step": {"entry_point": lambda: SameStep(Walk())},
    "vector, next step": {"vector_entry_point": vector(AutoresetMode.NEXT_STEP)},
    "vector, same step": {"vector_entry_point": vector(AutoresetMode.SAME_STEP)},
    "vector, disabled": {"vector_entry_point": vector(AutoresetMode.DISABLED)},
    "vector, one array for ever": {"vector_entry_point": vector(AutoresetMode.SAME_STEP, copy=False)},
}


@pytest.fixture
def registered() -> Iterator[str]:
    yield "Walk-v0"
    del gymnasium.registry["Walk-v0"]


def episode(simulator: GymnasiumSimulator, seed: int, push: float) -> Trajectory:
    def row(observation: Any) -> tuple[float, float]:
        return float(observation["position"][0]), float(observation["steps"][0])

    found: Trajectory = [row(simulator.reset(seed))]
    steps = []
    while not steps or not (steps[-1].terminated or steps[-1].truncated):
        steps.append(simulator.step(np.array([push], np.float32)))
    # Read at the end: an observation must not have changed since.
    return found + [(row(step.observation), step[1:]) for step in steps]


def trajectories(simulator: GymnasiumSimulator) -> list[Trajectory]:
    """A solved episode, one cut by its limit, the first again."""
    return [episode(simulator, seed, push) for seed, push in ((3, 0.9), (4, 0.1), (3, 0.9))]


@pytest.mark.parametrize("maker", MAKERS)
def test_identical_trajectories(maker: str, registered: str) -> None:
    gymnasium.register(registered, **MAKERS[maker])
    simulator = GymnasiumSimulator(registered)
    found = trajectories(simulator)
    simulator.close()
    del gymnasium.registry[registered]
    gymnasium.register(registered, Walk)
    expected = trajectories(GymnasiumSimulator(registered))
    assert found == expected
    solved, cut, again = found
    assert solved == again
    assert [(terminated, truncated, success) for _, (_, terminated, truncated, success) in (solved[-1], cut[-1])] == [
        (True, False, True),
        (False, True, False),
    ]
    assert cut[-1][0][1] == 6.0


def test_the_spec_is_that_of_one_row(registered: str) -> None:
    gymnasium.register(registered, vector_entry_point=vector(AutoresetMode.NEXT_STEP))
    spec = GymnasiumSimulator(registered).spec
    assert {key: space.shape for key, space in spec.observation.items()} == {"position": (1,), "steps": (1,)}
    assert spec.action.shape == (1,)
