"""A Gymnasium vector environment of one row as a single environment. Standard library, numpy, Gymnasium."""

from __future__ import annotations

from typing import Any


class OneRow:
    """Presents the only row of `vector`, with the parts of `gymnasium.Env` that the adapter uses.

    What the vector environment does when an episode ends (NEXT_STEP, SAME_STEP, DISABLED) makes no difference:
    `step` hands out what it hides in ``final_obs`` and ``final_info``, and `reset` begins anew in every mode.
    """

    def __init__(self, vector: Any) -> None:
        self.unwrapped = vector.unwrapped
        self._vector = vector
        self.observation_space, self.action_space = vector.single_observation_space, vector.single_action_space
        self.spec, self.metadata = vector.spec, vector.metadata or {}

    def reset(self, *, seed: int) -> tuple[Any, dict[str, Any]]:
        observations, infos = self._vector.reset(seed=seed)
        return self._first(observations), _row(infos)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        from gymnasium.vector.utils import concatenate, create_empty_array

        space = self.action_space
        actions: Any = create_empty_array(space, n=1)
        actions = concatenate(space, [action], actions)
        observations, rewards, terminated, truncated, infos = self._vector.step(actions)
        return self._first(observations), rewards[0], terminated[0], truncated[0], _row(infos)

    def render(self) -> Any:
        frames = self._vector.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        self._vector.close()

    def _first(self, observations: Any) -> Any:
        from gymnasium.vector.utils import iterate

        return next(iter(iterate(self._vector.observation_space, observations)))


def _row(infos: dict[str, Any]) -> dict[str, Any]:
    """The entries of row 0: a vector environment says with ``_key`` for which rows ``key`` holds."""
    found: dict[str, Any] = {}
    for key, values in infos.items():
        holds = infos.get(f"_{key}")
        if key.startswith("_") or (holds is not None and not holds[0]):
            continue
        if isinstance(values, dict):
            found[key] = _row(values)
        else:
            found[key] = values[0] if hasattr(values, "__getitem__") and len(values) else values
    return found
