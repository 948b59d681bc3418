"""What a backend is: small protocols. Standard library and numpy only, Python 3.8 on, for environment processes."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ebrl.graph.items import ActionChunk, Array, Batch, Observation, Step


@dataclass(frozen=True)
class Space:
    """Shape, type and range of one array. Discrete actions have shape () and an integer dtype; text has shape () and
    the dtype ``str``. Raises ValueError where shape or dtype is none."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    """Name of a numpy dtype, or ``str``."""
    low: float | Array | None = None
    high: float | Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _sizes(self.shape))
        object.__setattr__(self, "dtype", _name(self.dtype))
        if self.dtype == "str" and self.shape:
            raise ValueError(f"a Space of text has the shape {self.shape}; expected ()")


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise ValueError(f"a Space has the shape {shape!r}; expected a tuple of sizes, such as (4,)")
    return sizes


def _name(dtype: Any) -> str:
    if dtype in ("str", str):
        return "str"
    with contextlib.suppress(TypeError):
        if dtype is not None and (found := np.dtype(dtype)).kind in "biuf":
            return str(found.name)
    raise ValueError(f"a Space has the dtype {dtype!r}; expected a kind of float, int, bool, or str")


@dataclass(frozen=True)
class SimulatorSpec:
    """What a simulator declares about itself; every observation that anybody sees is checked against it."""

    observation: Mapping[str, Space]
    action: Space
    control_hz: float | None = None
    max_episode_steps: int | None = None
    instruction: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Simulator(Protocol):
    """One environment. Lives in one process and one thread; needs no thread safety.

    It may also have

    - ``render()``, which gives a uint8 image [height, width, 3] or None.
    - ``observe``, an attribute that is True at first: while the engine sets it to False, `step` may leave out of its
      observation what is costly, such as images, unless the episode ends with it. `reset` leaves out nothing.
    - a word on how its process may be forked: see `ebrl.runtime.warm_child`.
    """

    spec: SimulatorSpec

    def reset(self, seed: int) -> Observation:
        """Start an episode that depends on `seed` alone, not on earlier episodes."""
        ...

    def step(self, action: Array) -> Step:
        """Execute one action. After a terminated or truncated step the engine calls `reset`."""
        ...

    def close(self) -> None: ...


class BatchedStep(NamedTuple):
    """The outcome of one action in each of N environments. Own arrays: later calls leave them as they are."""

    observation: Mapping[str, Array]
    """Each [N, ...]. Where an episode ended this is its true final observation, never that of the next one."""
    rewards: Array
    """[N] float32"""
    terminated: Array
    """[N] bool"""
    truncated: Array
    """[N] bool"""
    success: Array | None = None
    """[N] bool; None where the simulator does not say."""


@runtime_checkable
class BatchedSimulator(Protocol):
    """N environments of one task in one process and thread, which step together, as GPU simulators do.

    Nothing resets by itself: after a step in which rows terminated or were truncated, the caller resets those
    rows. Until then they step along, and what they show means nothing. A backend offers this beside its
    `Simulator` as the attribute `batched` of its factory: ``factory.batched(target, num_envs=N, **options)``.
    """

    num_envs: int
    """N"""

    spec: SimulatorSpec
    """Of one environment: its shapes have no leading N."""

    def reset(self, seeds: Array, env_ids: Array | None = None) -> Mapping[str, Array]:
        """Start episodes in some rows and leave the others as they are.

        seeds: [M] integers from 0 to 2**31 - 1, one for each row that starts.
        env_ids: [M] int, different rows in any order; None means all N, in order.

        Returns observations, each [M, ...], in the order of `env_ids`. What an episode begins with depends on
        the seeds and rows of its own call, not on earlier calls. Raises ValueError where lengths or rows do not fit.
        """
        ...

    def step(self, actions: Array) -> BatchedStep:
        """Execute one action in every environment. actions: [N, *action shape], clipped to the action range."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Policy(Protocol):
    """What generation and evaluation need of a policy. Stages that train ask for more (see `stages/`).

    It may also have

    - ``prepare(arrays)``: before `load` gets them, in another thread than `act`, which goes on meanwhile. What takes
      long, such as bringing weights to a device, belongs here.
    - ``batch_invariant``, an attribute that is True where a row's actions depend neither on the other rows nor on how
      many there are. Else, where results must not depend on timing, all environments are computed in every call.
    """

    chunk: int
    """K, the actions planned by one call."""

    def act(self, observations: Batch[Observation], *, deterministic: bool = False) -> Batch[ActionChunk]:
        """Plan a chunk for every observation; columns `actions` [B, K, *shape] and `log_probs` [B, K, A]."""
        ...

    def weights(self) -> dict[str, Array]:
        """All state that acting needs, normalisation included, as host arrays."""
        ...

    def load(self, arrays: Mapping[str, Array]) -> None: ...


@runtime_checkable
class ActorCritic(Policy, Protocol):
    """What PPO needs of a policy beside acting. Tensors are torch's; N is a number of chunks."""

    observation_keys: tuple[str, ...]
    """The observations that it reads."""

    def evaluate(self, observations: Mapping[str, Any], actions: Any) -> tuple[Any, Any, Any]:
        """log_probs [N, K, A], entropy [N, K, A] and values [N], with gradients; at the weights that
        generated `actions` the log_probs are those of `act`."""
        ...

    def values(self, observations: Mapping[str, Any]) -> Any:
        """Values [N], with gradients."""
        ...

    def parameters(self) -> list[Any]:
        """Torch parameters, always the same objects in the same order."""
        ...

    def update_normalization(self, observations: Mapping[str, Any]) -> None:
        """Take observations [N, ...] into the running statistics; at no other time may these change."""
        ...


class Device(Protocol):
    """What an accelerator backend reads of a GPU or MIG instance, such as `ebrl.resources.gpus.Gpu`."""

    @property
    def uuid(self) -> str: ...

    @property
    def mig(self) -> bool:
        """An instance of a partitioned GPU."""
        ...

    @property
    def sm_count(self) -> int | None:
        """Streaming multiprocessors; None where unknown."""
        ...

    @property
    def compute_capability(self) -> tuple[int, int] | None: ...


@dataclass(frozen=True)
class Share:
    """What one process, or one stage of a shared process, may use. Raises ValueError for an impossible one."""

    device: str = ""
    """UUID of the device; empty for a share of the CPU alone."""
    sm_percent: float = 100.0
    """Per cent of the device's streaming multiprocessors, over 0."""
    memory_mib: int | None = None
    """Device memory; None is not bounded."""
    cores: tuple[int, ...] = ()
    """Core ids; empty is whatever the process may use already."""
    threads: int | None = None
    """Size of every thread pool; None is one thread per core of `cores`."""
    model: str = ""
    """Name of the device, as NVML gives it; empty where unknown."""
    in_turn: bool = False
    """Other stages have the device in between: whoever begins to work loads first what it needs."""

    def __post_init__(self) -> None:
        if not 0 < self.sm_percent <= 100:
            raise ValueError(f"a Share has {self.sm_percent} % of the SMs; expected more than 0 and at most 100")
        for name in ("memory_mib", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"a Share has {name}={value}; expected 1 or more, or None")


class Granularity(NamedTuple):
    """The smallest difference between two shares that a backend can tell apart."""

    size: float
    unit: str
    """``percent`` of the device, ``SMs``, or ``cores``."""


class Unavailable(NamedTuple):
    """Why a backend cannot serve a device here."""

    reason: str
    """Half a sentence, such as ``no MPS daemon answers at /tmp/nvidia-mps``."""
    hint: str = ""
    """The way out; a command where there is one."""


LIVE, RESTART, IMPOSSIBLE = "live", "restart", "impossible"
"""What a change of a share takes: nothing, a new process, or hands that are not ours."""


@runtime_checkable
class Accelerator(Protocol):
    """How shares of a device come about. Made without arguments; holds no device, so that it can be made anywhere."""

    change: str
    """`LIVE`, `RESTART` or `IMPOSSIBLE`."""

    within_process: bool
    """Divides a device among the stages of one process; else among processes."""

    @property
    def enforced(self) -> bool:
        """The share is a limit here. Else it is advisory: planned with, and kept by nobody."""
        ...

    def available(self, device: Device | None) -> Unavailable | None:
        """None where this backend can serve `device` (None: the CPU) on this machine, else why not. Starts nothing."""
        ...

    def granularity(self, device: Device | None) -> Granularity: ...

    def round(self, percent: float, device: Device | None) -> float:
        """The share, in per cent, that comes about where `percent` is asked for: over 0, at most 100."""
        ...

    def environment(self, share: Share) -> dict[str, str]:
        """Environment variables with which the process that gets `share` must start. Those of the device, or, of the
        backend that serves the CPU, those of its threads."""
        ...

    def apply(self, share: Share) -> None:
        """Change to `share` at once, in the process, and where `within_process` in the thread, that calls this.
        A backend whose change is not `LIVE` has nothing to do here: its `environment` said everything."""
        ...
