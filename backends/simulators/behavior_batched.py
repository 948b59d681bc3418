"""N environments of a BEHAVIOR activity in one process. Standard library, numpy, bddl, OmniGibson only."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import BatchedStep, SimulatorSpec, Space
from ebrl.backends.simulators.batched_row import rows_of
from ebrl.backends.simulators.behavior_api import environments
from ebrl.backends.simulators.behavior_goals import read_goals
from ebrl.errors import SimulatorError, UsageError
from ebrl.graph.items import Array

_RANDOM_STARTS = ("online_object_sampling", "randomize_presampled_pose")
_RENDERED_HZ, _PHYSICS_HZ = 30.0, 120.0


class BehaviorBatch:
    """A `BatchedSimulator`: ``BehaviorSimulator.batched("defrosting_freezer", num_envs=16)``.

    Options and errors are those of `BehaviorSimulator`. Prepared starts are the same under every seed
    (``spec.extra["constant"]``), unless `task` asks OmniGibson to draw them.
    """

    def __init__(
        self,
        activity: str,
        *,
        num_envs: int,
        definition: int = 0,
        instance: int = 0,
        scene: str | None = None,
        robot: str = "R1Pro",
        modalities: str | Sequence[str] = ("proprio",),
        horizon: int = 2000,
        action_frequency: float = 30.0,
        task: Mapping[str, Any] | None = None,
    ) -> None:
        goals = read_goals(activity, definition)
        if scene is None and not goals.scenes:
            raise UsageError(f"nobody chose a scene for BEHAVIOR's {activity}", hint="give one, such as scene=Rs_int")
        scene = scene or goals.scenes[0]
        modalities = [modalities] if isinstance(modalities, str) else list(modalities)
        further = dict(task or {})
        self.num_envs, self._horizon = int(num_envs), int(horizon)
        self._steps = np.zeros(self.num_envs, np.int64)
        self._environments = environments(
            self.num_envs,
            {
                "env": {
                    "action_frequency": action_frequency,
                    "rendering_frequency": min(action_frequency, _RENDERED_HZ),
                    "physics_frequency": _PHYSICS_HZ,
                    "flatten_action_space": True,
                    "flatten_obs_space": True,
                    "automatic_reset": False,
                },
                "scene": {"type": "InteractiveTraversableScene", "scene_model": scene},
                "robots": [{"type": robot, "name": "robot_0", "obs_modalities": modalities}],
                "task": {
                    "type": "BehaviorTask",
                    "activity_name": activity,
                    "activity_definition_id": definition,
                    "activity_instance_id": instance,
                    "termination_config": {"max_steps": self._horizon},
                    **further,
                },
            },
        )
        space = self._environments.action_space
        self._low, self._high = np.ravel(space.low).astype(np.float32), np.ravel(space.high).astype(np.float32)
        first = self.reset(np.arange(self.num_envs))
        if not first:
            raise SimulatorError(f"BEHAVIOR's {activity} observes nothing", hint="give modalities, such as proprio")
        self.spec = SimulatorSpec(
            observation={key: Space(value.shape[1:], str(value.dtype)) for key, value in first.items()},
            action=Space(self._low.shape, low=self._low, high=self._high),
            control_hz=float(action_frequency),
            max_episode_steps=self._horizon,
            instruction=goals.instruction,
            extra={
                "goals": goals.conditions,
                "scene": scene,
                "robot": robot,
                "constant": not any(further.get(name) for name in _RANDOM_STARTS),
            },
        )

    def reset(self, seeds: Array, env_ids: Array | None = None) -> dict[str, Array]:
        new, rows = rows_of(self.num_envs, seeds, env_ids)
        if not rows.size:
            return {key: np.empty((0, *space.shape), space.dtype) for key, space in self.spec.observation.items()}
        _seed_all([int(seed) for seed in new])
        self._steps[rows] = 0
        return _stacked(self._environments.reset([int(row) for row in rows]))

    def step(self, actions: Array) -> BatchedStep:
        clipped = np.clip(np.asarray(actions, np.float32), self._low, self._high)
        observations, rewards, terminated, truncated, infos = self._environments.step(clipped)
        self._steps += 1
        ended = np.array([bool(flag) for flag in terminated])
        return BatchedStep(
            _stacked(observations),
            np.array([float(reward) for reward in rewards], np.float32),
            ended,
            np.array([bool(flag) for flag in truncated]) | (self._steps >= self._horizon) & ~ended,
            np.array([bool(info["done"]["success"]) for info in infos]),
        )

    def close(self) -> None:
        self._environments.close()


def _seed_all(seeds: list[int]) -> None:
    """OmniGibson draws from the global generators of Python, numpy and torch, for all rows of a reset."""
    import torch

    state = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    random.seed(state)
    np.random.seed(state)
    torch.manual_seed(state)


def _stacked(observations: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    return {key.replace("::", "."): np.stack([_own(key, one[key]) for one in observations]) for key in observations[0]}


def _own(key: str, value: Any) -> Array:
    array = np.array(value.cpu().numpy() if hasattr(value, "cpu") else value, ndmin=1)
    if array.dtype == np.uint8:
        return array[..., :3] if key.endswith("rgb") else array  # OmniGibson's colours carry an alpha
    return array.astype(np.int32 if np.issubdtype(array.dtype, np.integer) else np.float32)
