"""Emulated environments: costs, episodes and faults by option. The instrument for scheduler and fault tests.

Runs in environment processes: standard library and numpy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.backends.simulators import emulated_faults as faults_of
from ebrl.backends.simulators.emulated_costs import MODES, Cost
from ebrl.backends.simulators.emulated_profiles import PROFILES
from ebrl.errors import SimulatorError, SimulatorNotFound, UsageError, did_you_mean
from ebrl.graph.items import Array, Observation, Step

NUMBER = "EBRL_ENVIRONMENT"
"""Environment variable with the number of the environment that a process runs, set before its first reset."""
_COSTS, _EPISODE, _SHOWN, _FAULTS = range(4)
"""Independent random streams of one episode."""


def emulated(target: str, **options: Any) -> EmulatedSimulator:
    """``emulated:lift``, ``emulated:constant?step_s=0.02``: a profile with some of its options replaced.

    `target` is the name of a profile in `emulated_profiles`, or a JSON file of options (path ending in ``.json``).
    Raises SimulatorNotFound for an unknown profile, UsageError for an unknown or impossible option.
    """
    try:
        return EmulatedSimulator(**{**_profile(target), **options})
    except (TypeError, ValueError) as cause:
        known = sorted(EmulatedSimulator.__init__.__kwdefaults__ or ())
        for name in (*_profile(target), *options):
            if name not in known:
                hint = did_you_mean(name, known)
                raise UsageError(f"emulated environments have no option {name!r}", hint=hint) from None
        raise UsageError(f"an option of emulated:{target} has the wrong type or value", detail=str(cause)) from cause


class EmulatedSimulator:
    """An environment that costs what it is told to. All draws depend on the seed of the episode, the number of the
    step and, for `shrink` and faults in resets, the number of resets that this process has seen; on nothing else.

    Costs:

    step_s, reset_s, start_s: mean seconds of a step, of a reset, and of making the environment.
    step_p99_s, reset_p99_s: with one, costs are lognormal with this 99th percentile in seconds; else constant.
    step_table, reset_table: seconds, one of which is drawn each time, instead of the two above.
    mode: ``sleep`` lets wall time pass, and counts as an idle core; ``spin`` uses up CPU time, as simulators do.
    stragglers: numbers of environments whose steps and resets cost `straggler_factor` times as much.

    Episodes:

    horizon: steps after which an episode is truncated.
    length: mean steps of an episode that ends by itself, at most `horizon`; None: all last to the horizon.
    length_spread: lengths are drawn evenly from length * (1 - spread) to length * (1 + spread), 0 to 1.
    success: probability that an episode ends solved (then it terminates); one that ends before the horizon
        without terminates too, as if something fell.
    shrink, shrink_episodes: over so many episodes of a process, lengths (and the horizon, as far as it cuts) go
        evenly down to `shrink` times themselves; the declared limit stays.

    Shapes:

    state: float32 numbers under the key ``state``; 0 leaves it out.
    cameras, image: so many uint8 images ``camera0`` ... of [image, image, 3].
    action: float32 numbers in -1..1.
    instruction: shown as text where it is not empty.
    control_hz: declared actions per simulated second.

    The reward of a step is 1 - mean((action - state[:action])^2), so there is something to learn. An image is one
    grey that differs from step to step.

    Faults: `faults` is a list of ``kind@call``, separated by commas. Kinds: ``raise``, ``exit`` (code 1), ``segfault``,
    ``hang`` (sleeps for ever), ``nan`` (in the state, without one in the reward), ``leak`` (of `leak_mib` MiB). Calls:
    ``start``, ``reset``, ``step``, ``close``. ``:n`` strikes in the n-th step of an episode or the n-th reset of a
    process only, ``:n+`` from it on, and ``*p`` with probability p each time: ``raise@step:7*0.1,leak@reset``.
    faulty: numbers of the environments that have faults; None: all. Not with a fault at ``start``.

    Raises UsageError for values that exclude one another.
    """

    def __init__(
        self,
        *,
        step_s: float = 0.0,
        step_p99_s: float | None = None,
        step_table: Sequence[float] = (),
        reset_s: float = 0.0,
        reset_p99_s: float | None = None,
        reset_table: Sequence[float] = (),
        start_s: float = 0.0,
        mode: str = "sleep",
        stragglers: Sequence[int] = (),
        straggler_factor: float = 5.0,
        horizon: int = 100,
        length: float | None = None,
        length_spread: float = 0.0,
        success: float = 0.5,
        shrink: float = 1.0,
        shrink_episodes: int = 1,
        state: int = 8,
        cameras: int = 0,
        image: int = 128,
        action: int = 2,
        instruction: str = "",
        control_hz: float | None = None,
        faults: str | Sequence[str] = "",
        faulty: Sequence[int] | None = None,
        leak_mib: float = 5.0,
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"mode is {mode!r}", hint=did_you_mean(mode, MODES))
        _within("success", success, 0, 1)
        _within("length_spread", length_spread, 0, 1)
        _within("shrink", shrink, 0, 1)
        _within("horizon", horizon, 1)
        _within("action", action, 1)
        _within("shrink_episodes", shrink_episodes, 1)
        if not (state or cameras):
            raise UsageError("there is nothing to observe", hint="give it a state or cameras")
        self._spend = MODES[mode]
        self._step_cost = Cost("step", step_s, step_p99_s, step_table)
        self._reset_cost = Cost("reset", reset_s, reset_p99_s, reset_table)
        self._stragglers, self._straggler_factor = _numbers(stragglers), float(straggler_factor)
        self._horizon, self._length, self._spread = int(horizon), float(length or horizon), float(length_spread)
        self._success = float(success)
        self._shrink, self._shrink_episodes = float(shrink), int(shrink_episodes)
        self._faults, self._leak_mib = faults_of.parse(faults), float(leak_mib)
        self._faulty = None if faulty is None else _numbers(faulty)
        if self._faulty is not None and any(fault.call == "start" for fault in self._faults):
            raise UsageError(
                "`faulty` and a fault at start exclude one another", hint="numbers are given after the start"
            )
        self._instruction, self._resets, self._closed = str(instruction), 0, False
        self.spec = SimulatorSpec(
            observation=_spaces(state, cameras, image, self._instruction),
            action=Space(shape=(int(action),), low=-1.0, high=1.0),
            control_hz=control_hz,
            max_episode_steps=self._horizon,
            instruction=self._instruction,
        )
        self._inject("start", 1, 0)
        self._spend(start_s)

    def reset(self, seed: int) -> Observation:
        self._seed, self._count, self._value = int(seed), 0, 0.0
        self._resets += 1
        self._steps, self._solved = self._episode()
        self._costs, self._shown = self._stream(_COSTS), self._stream(_SHOWN)
        self._spend(self._reset_cost.draw(self._costs) * self._factor())
        return self._look(self._inject("reset", self._resets, seed))

    def step(self, action: Array) -> Step:
        """Execute one action, clipped to -1..1."""
        self._count += 1
        self._spend(self._step_cost.draw(self._costs) * self._factor())
        spoilt = self._inject("step", self._count, self._seed)
        over = self._count >= self._steps
        reward = self._reward(np.clip(np.asarray(action, np.float32), -1.0, 1.0))
        if spoilt and "state" not in self.spec.observation:
            reward = float("nan")
        cut = over and not self._solved and self._count >= self._limit
        return Step(self._look(spoilt), reward, over and not cut, cut, over and self._solved)

    def render(self) -> Array:
        """One grey, as the cameras show it: uint8 [64, 64, 3]."""
        return np.full((64, 64, 3), self._grey(), np.uint8)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._inject("close", 1, 0)

    def _episode(self) -> tuple[int, bool]:
        """How many steps this episode lasts, and whether it is solved then."""
        rng = self._stream(_EPISODE)
        drift = 1.0 - (1.0 - self._shrink) * min(1.0, (self._resets - 1) / self._shrink_episodes)
        self._limit = max(1, round(self._horizon * drift))
        drawn = self._length * (1.0 + self._spread * float(rng.uniform(-1.0, 1.0))) * drift
        return max(1, min(self._limit, round(drawn))), bool(rng.uniform() < self._success)

    def _look(self, spoilt: bool) -> Observation:
        observation = Observation()
        for key, space in self.spec.observation.items():
            if space.dtype == "str":
                observation[key] = self._instruction
            elif space.dtype == "uint8":
                observation[key] = np.full(space.shape, self._grey(), np.uint8)
            else:
                self._target = self._shown.uniform(-1.0, 1.0, space.shape).astype(np.float32)
                observation[key] = self._target.copy()
                if spoilt:
                    observation[key][0] = np.nan
        return observation

    def _reward(self, action: Array) -> float:
        if "state" not in self.spec.observation:
            return 1.0 - float(np.mean(action * action))
        used = min(len(action), len(self._target))
        return 1.0 - float(np.mean((action[:used] - self._target[:used]) ** 2))

    def _grey(self) -> int:
        return (self._seed + self._count) % 256

    def _inject(self, call: str, number: int, seed: int) -> bool:
        """Strike with the faults of this call; whether its numbers are to be spoilt."""
        spoilt = False
        for position, fault in enumerate(self._faults):
            if not fault.strikes(call, number, (seed, _FAULTS, position, number)):
                continue
            if self._faulty is not None and _own_number() not in self._faulty:
                continue
            spoilt = spoilt or fault.kind == "nan"
            faults_of.strike(fault, self._leak_mib)
        return spoilt

    def _factor(self) -> float:
        return self._straggler_factor if self._stragglers and _own_number() in self._stragglers else 1.0

    def _stream(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, purpose))


def _profile(target: str) -> Mapping[str, Any]:
    if target.endswith(".json"):
        try:
            with open(target, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError) as cause:
            raise SimulatorNotFound(f"the profile {target!r} cannot be read", detail=str(cause)) from cause
        if not isinstance(found, dict):
            raise SimulatorNotFound(f"the profile {target!r} is no JSON object of options")
        return found
    if target not in PROFILES:
        raise SimulatorNotFound(f"no emulated profile is named {target!r}", hint=did_you_mean(target, PROFILES))
    return PROFILES[target]


def _numbers(environments: Any) -> frozenset[int]:
    return frozenset([environments] if isinstance(environments, int) else (int(number) for number in environments))


def _own_number() -> int:
    """Read late: a process that is forked for an environment learns its number after this module was loaded."""
    try:
        return int(os.environ[NUMBER])
    except (KeyError, ValueError):
        raise SimulatorError(
            "this process does not know the number of its environment, so `stragglers` and `faulty` mean nothing",
            hint=f"set the environment variable {NUMBER}",
        ) from None


def _within(name: str, value: float, least: float, most: float = float("inf")) -> None:
    if not least <= value <= most:
        bounds = f"{least:g} to {most:g}" if most < float("inf") else f"at least {least:g}"
        raise UsageError(f"{name} is {value!r}; it must be {bounds}")


def _spaces(state: int, cameras: int, image: int, instruction: str) -> dict[str, Space]:
    spaces = {"state": Space(shape=(int(state),))} if state else {}
    for camera in range(int(cameras)):
        spaces[f"camera{camera}"] = Space(shape=(int(image), int(image), 3), dtype="uint8", low=0, high=255)
    if instruction:
        spaces["instruction"] = Space(shape=(), dtype="str")
    return spaces
