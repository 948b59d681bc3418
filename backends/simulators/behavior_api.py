"""OmniGibson's two ways to hold N environments, as one. Standard library, numpy and OmniGibson only.

Up to 2025 a VectorEnvironment holds N environments and answers with lists; later one Environment holds N scenes,
answers with tensors and resets some of them.
"""

from __future__ import annotations

import contextlib
import inspect
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ebrl.errors import SimulatorError, SimulatorNotFound
from ebrl.graph.items import Array

Rows = Sequence[Mapping[str, Any]]


class ListEnvironments:
    """Of a VectorEnvironment."""

    def __init__(self, num_envs: int, config: Mapping[str, Any]) -> None:
        from omnigibson.envs import VectorEnvironment

        self._vector = VectorEnvironment(num_envs, config)
        self.action_space = self._vector.envs[0].action_space

    def reset(self, rows: Sequence[int]) -> Rows:
        # Its own reset() knows no rows.
        return [self._vector.envs[row].reset()[0] for row in rows]

    def step(self, actions: Array) -> tuple[Rows, Any, Any, Any, Rows]:
        found: tuple[Rows, Any, Any, Any, Rows] = self._vector.step(list(actions))
        return found

    def close(self) -> None:
        self._vector.close()


class TensorEnvironments:
    """Of an Environment with N scenes."""

    def __init__(self, num_envs: int, config: Mapping[str, Any]) -> None:
        import omnigibson

        # Robots are called by lower-case models since.
        robots = [
            {**{key: value for key, value in robot.items() if key != "type"}, "model": robot["type"].lower()}
            for robot in config["robots"]
        ]
        settings = {**config, "env": {**config["env"], "num_envs": num_envs}, "robots": robots}
        self._environment = omnigibson.Environment(configs=settings)
        self.action_space = self._environment.action_space

    def reset(self, rows: Sequence[int]) -> Rows:
        import torch

        observations: Rows = self._environment.reset(env_indices=torch.as_tensor(rows))[0]
        return observations

    def step(self, actions: Array) -> tuple[Rows, Any, Any, Any, Rows]:
        import torch

        found: tuple[Rows, Any, Any, Any, Rows] = self._environment.step(torch.as_tensor(actions))
        return found

    def close(self) -> None:
        self._environment.close()


def environments(num_envs: int, config: Mapping[str, Any]) -> ListEnvironments | TensorEnvironments:
    """In the way of the installed OmniGibson, which is found by what its reset accepts.

    Raises SimulatorNotFound where OmniGibson is missing, SimulatorError where it does not start.
    """
    with _signals_kept():
        try:
            import omnigibson
        except ImportError as cause:
            raise SimulatorNotFound(
                "OmniGibson cannot be imported in this interpreter",
                detail=f"{type(cause).__name__}: {cause}",
                hint="it comes with Isaac Sim from BEHAVIOR-1K's own installer (setup.sh), for machines with an RTX "
                "GPU; `ebrl env create behavior` brings the activities' goals only",
            ) from cause
        omnigibson.macros.gm.HEADLESS = True
        partial = "env_indices" in inspect.signature(omnigibson.Environment.reset).parameters
        try:
            return (TensorEnvironments if partial else ListEnvironments)(num_envs, config)
        except (RuntimeError, AssertionError, KeyError, FileNotFoundError) as cause:
            raise SimulatorError(
                f"OmniGibson does not build {config['task']['activity_name']} in {config['scene']['scene_model']}",
                detail=f"{type(cause).__name__}: {cause}",
                hint="an RTX GPU, its driver, and BEHAVIOR-1K's data set (scene, activity instance) must be there",
            ) from cause


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """OmniGibson takes SIGINT for itself when it is imported and when it starts."""
    kept = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, kept)
