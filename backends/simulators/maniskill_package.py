"""What the two ManiSkill adapters share: the package, its assets, its arrays. Standard library and numpy only."""

from __future__ import annotations

import builtins
import contextlib
import io
import logging
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import Space
from ebrl.errors import SimulatorError, SimulatorNotFound, UsageError, did_you_mean
from ebrl.graph.items import Array

STATE = "state"
"""Key of an observation that is one vector."""

_VULKAN = (
    "apt-get install libvulkan1 mesa-vulkan-drivers (on Debian 12 the latter from bookworm-backports: its own "
    "version 22 is too old), or the driver of the GPU"
)


def make(task: str, num_envs: int, image_size: Sequence[int] | None, options: Mapping[str, Any]) -> tuple[Any, int]:
    """ManiSkill's own environment without wrappers, and its time limit in steps (0: none).

    Raises SimulatorNotFound for an unknown task, a missing package or missing assets, UsageError for what the
    task does not accept, SimulatorError where no Vulkan or CUDA device is found. Never asks a question.
    """
    registry = _registry()
    if task not in registry:
        raise SimulatorNotFound(f"no ManiSkill task {task!r}", hint=did_you_mean(task, registry))
    arguments = {"num_envs": num_envs, **options}
    if image_size is not None:
        arguments["sensor_configs"] = {"height": int(image_size[0]), "width": int(image_size[1])}
    _require_assets(task, registry[task])
    with _quiet(task):
        try:
            environment = registry[task].make(**arguments)
        except (RuntimeError, AssertionError) as cause:
            raise _explained(task, cause) from cause
        except (TypeError, NotImplementedError, KeyError) as cause:
            raise UsageError(
                f"ManiSkill's {task} does not accept one of {', '.join(sorted(arguments))}",
                detail=f"{type(cause).__name__}: {cause}",
                hint="options go to the task as they are: obs_mode, reward_mode, control_mode, robot_uids, sim_config",
            ) from cause
    return environment, int(registry[task].max_episode_steps or 0)


def flat(observation: Any, prefix: str = "") -> dict[str, Array]:
    """Own host arrays with their leading N, under names without nesting: float32, and uint8 for images.

    A camera's image is named like the camera, its other textures ``<camera>.<texture>``; what the cameras are
    set to is left out.
    """
    if not isinstance(observation, Mapping):
        return {prefix or STATE: _own(observation)}
    found: dict[str, Array] = {}
    for key, value in observation.items():
        if key == "sensor_param" and not prefix:
            continue
        if key == "sensor_data" and not prefix:
            for camera, textures in value.items():
                for texture, image in textures.items():
                    found[camera if texture == "rgb" else f"{camera}.{texture}"] = _own(image)
            continue
        found.update(flat(value, f"{prefix}.{key}" if prefix else str(key)))
    return found


def spaces(rows: Mapping[str, Array]) -> dict[str, Space]:
    """Of one environment, from observations [N, ...]."""
    return {
        key: Space(value.shape[1:], str(value.dtype), *((0.0, 255.0) if value.dtype == np.uint8 else (None, None)))
        for key, value in rows.items()
    }


class Actions:
    """Between [N, A] arrays and what the environment takes: one array, or one per robot."""

    def __init__(self, space: Any) -> None:
        parts = dict(getattr(space, "spaces", None) or {"": space})
        self._sizes = {name: int(np.prod(part.shape)) for name, part in parts.items()}
        low = np.concatenate([np.ravel(part.low) for part in parts.values()]).astype(np.float32)
        high = np.concatenate([np.ravel(part.high) for part in parts.values()]).astype(np.float32)
        self.space = Space(low.shape, low=low, high=high)

    def native(self, actions: Array) -> Any:
        clipped = np.clip(np.asarray(actions, np.float32), self.space.low, self.space.high)
        if "" in self._sizes:
            return clipped
        ends = np.cumsum(list(self._sizes.values()))[:-1]
        return dict(zip(self._sizes, np.split(clipped, ends, axis=-1)))  # noqa: B905 (Python 3.8 knows no strict)


def host(tensor: Any, dtype: Any) -> Array:
    """An own numpy array of a tensor, wherever it lies."""
    return np.array(tensor.cpu().numpy() if hasattr(tensor, "cpu") else tensor, dtype=dtype)


def instruction(environment: Any) -> str:
    """What the task says about itself, where it does."""
    ask = getattr(environment, "get_language_instruction", None)
    told = ask() if callable(ask) else ""
    return str(told if isinstance(told, str) else next(iter(told), ""))


def _own(value: Any) -> Array:
    array = host(value, None)
    array = array if array.dtype == np.uint8 else array.astype(np.float32)
    return array[:, None] if array.ndim == 1 else array


def _registry() -> Any:
    with _quiet(""):
        try:
            import mani_skill.envs  # noqa: F401 (registers the tasks)
            from mani_skill.utils.registration import REGISTERED_ENVS
        except ImportError as cause:
            raise SimulatorNotFound(
                "ManiSkill cannot be imported in this interpreter",
                detail=f"{type(cause).__name__}: {cause}",
                hint="ebrl env create maniskill",
            ) from cause
    logging.getLogger("mani_skill ").setLevel(logging.ERROR)  # the blank is theirs
    return REGISTERED_ENVS


def _require_assets(task: str, entry: Any) -> None:
    from mani_skill.utils import assets

    missing = []
    for name in entry.asset_download_ids or ():
        sources = (
            assets.expand_data_group_into_individual_data_source_ids(name) if name in assets.DATA_GROUPS else [name]
        )
        missing += [source for source in sources if not assets.is_data_source_downloaded(source)]
    if missing:
        raise _assets(task, f"{', '.join(sorted(missing)[:5])}{' ...' if len(missing) > 5 else ''}")


def _assets(name: str, which: str) -> SimulatorNotFound:
    return SimulatorNotFound(
        f"ManiSkill's {name} needs assets that are not on this machine: {which}",
        hint=f"{sys.executable} -m mani_skill.utils.download_asset {name} -y (MS_ASSET_DIR names their folder)",
    )


def _explained(task: str, cause: BaseException) -> SimulatorError | UsageError:
    text = str(cause)
    detail = f"{type(cause).__name__}: {text}"
    if "vk::" in text or "ulkan" in text or "rendering device" in text:
        return SimulatorError(
            f"ManiSkill's {task} finds no Vulkan device, which it needs even without images",
            detail=detail,
            hint=_VULKAN,
        )
    if "cuda" in text.lower() or "gpu" in text.lower():
        return SimulatorError(
            f"ManiSkill's {task} finds no CUDA device", detail=detail, hint="without sim_backend the CPU simulates"
        )
    return UsageError(f"ManiSkill's {task} cannot be made with these options", detail=detail)


@contextlib.contextmanager
def _quiet(task: str) -> Iterator[None]:
    """No output of Python code, and instead of a question (robots have assets of their own) an error."""

    def ask(prompt: object = "") -> str:
        lines = [line for line in nowhere.getvalue().splitlines() if line.strip(" -")]
        question = lines[-1] if lines else str(prompt)
        robot = re.match(r"Robot (\S+) has assets", question)
        raise _assets(robot[1], f"those of robot {robot[1]}") if robot else _assets(task, question)

    nowhere, asked = io.StringIO(), builtins.input
    builtins.input = ask
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        builtins.input = asked
