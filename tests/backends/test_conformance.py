from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ebrl.backends.conformance import CHECKS, Check, check_simulator, outcomes
from ebrl.backends.protocols import SimulatorSpec, Space
from ebrl.backends.simulators.emulated import emulated
from ebrl.backends.simulators.gymnasium import GymnasiumSimulator
from ebrl.errors import SimulatorError
from ebrl.graph.items import Observation, Step

ADAPTERS: dict[str, Callable[[], Any]] = {
    "emulated:lift": lambda: emulated("lift", step_s=0.0, step_p99_s=None, reset_s=0.0, reset_p99_s=None),
    "emulated, all kinds": lambda: emulated(
        "constant", step_s=0, reset_s=0, cameras=2, image=8, instruction="lift", horizon=12, length=6, length_spread=1
    ),
    "gymnasium:Pendulum-v1": lambda: GymnasiumSimulator("Pendulum-v1"),
    "gymnasium:CartPole-v1": lambda: GymnasiumSimulator("CartPole-v1"),
    "gymnasium:Blackjack-v1": lambda: GymnasiumSimulator("Blackjack-v1"),
    "gymnasium:FetchReachDense-v4": lambda: GymnasiumSimulator("FetchReachDense-v4"),
}


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_our_adapters(adapter: str, check: Check) -> None:
    assert not check_simulator(ADAPTERS[adapter], checks=[check])


@pytest.mark.simulator
@pytest.mark.slow
def test_robosuite() -> None:
    if subprocess.run([sys.executable, "-c", "import robosuite"], capture_output=True).returncode:
        pytest.skip("robosuite is not installed")
    from ebrl.backends.simulators.robosuite import RobosuiteSimulator

    found = check_simulator(lambda: RobosuiteSimulator("Lift", horizon=12))
    assert not found, "\n".join(map(str, found))


class Sound:
    """Adds its action to a state that starts at a random place; over after 12 steps."""

    spec: Any = SimulatorSpec(
        observation={"state": Space((2,), low=-99.0, high=99.0), "text": Space((), "str")},
        action=Space((2,), low=-1.0, high=1.0),
        max_episode_steps=12,
    )
    closed = False

    def reset(self, seed: int) -> Any:
        self.state = np.random.default_rng(seed).uniform(-1, 1, 2).astype(np.float32)
        self.count = 0
        return self.look()

    def step(self, action: Any) -> Any:
        self.count += 1
        self.state += self.clipped(action)
        return Step(self.look(), 1.0, False, self.count >= 12, False)

    def clipped(self, action: Any) -> Any:
        return np.clip(action, -1, 1)

    def look(self) -> Any:
        return Observation(state=self.state.copy(), text="go on")

    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8)

    def close(self) -> None:
        self.closed = True


DEFECTS: list[tuple[str, str, dict[str, Any]]] = []


def defect(check: str, message: str, **members: Any) -> None:
    DEFECTS.append((check, message, members))


def spec(**changes: Any) -> SimulatorSpec:
    return SimulatorSpec(**{**vars(Sound.spec), **changes})


def shown(**values: Any) -> Callable[[Any], Any]:
    return lambda self: Observation({**Sound.look(self), **values})


def stepped(**values: Any) -> Callable[[Any, Any], Any]:
    return lambda self, action: Sound.step(self, action)._replace(**values)


defect("spec", "spec is dict; expected ebrl.SimulatorSpec", spec={})
defect("spec", "spec.observation declares nothing; expected at least one key with its Space", spec=spec(observation={}))
defect("spec", "spec.observation['state'] is tuple; expected ebrl.Space", spec=spec(observation={"state": (2,)}))
defect(
    "spec",
    "spec.observation['state'] has dtype 'float64'; expected one of float32, uint8, str, int64, int32, bool",
    spec=spec(observation={"state": Space((2,), "float64")}),
)
defect(
    "spec",
    "spec.action has shape (0,); expected a tuple of positive ints",
    spec=spec(action=Space((0,))),
)
defect("spec", "spec.action.low does not fit shape (2,)", spec=spec(action=Space((2,), low=np.zeros(3))))
defect("spec", "spec.action has a low above its high", spec=spec(action=Space((2,), low=1, high=0)))
defect(
    "spec",
    "spec.max_episode_steps is 0; expected a positive int, or None where nothing cuts",
    spec=spec(max_episode_steps=0),
)
defect("spec", "spec.control_hz is 0; expected actions per second above 0, or None", spec=spec(control_hz=0))
defect("spec", "spec.instruction is None; expected text", spec=spec(instruction=None))
defect(
    "reset",
    "reset() gave no observation 'text'; declared: state, text",
    look=lambda self: Observation(state=self.state),
)
defect(
    "reset",
    "observation 'state' from reset(): expected float32 (2,), got float64 (2,)",
    look=shown(state=np.zeros(2)),
)
defect("reset", "observation 'text' from reset(): expected text, got bytes", look=shown(text=b"go on"))
defect(
    "reset",
    "observation 'state' from reset() is nan at index (0,)",
    look=shown(state=np.array([np.nan, 0], np.float32)),
)
defect("step", "step() returned tuple; expected ebrl.Step", step=lambda self, action: tuple(Sound.step(self, action)))
defect("step", "terminated of step 1 is int; expected bool", step=stepped(terminated=0))
defect(
    "ranges",
    "observation 'state' of reset() is 901 above its declared high",
    look=shown(state=np.full(2, 1000, np.float32)),
)
defect(
    "ranges",
    "observation 'state' of reset() is 1 below its declared low",
    look=shown(state=np.full(2, -100, np.float32)),
)
defect("reward", "the reward of step 1 is None; expected a float", step=stepped(reward=None))
defect("reward", "the reward of step 1 is inf", step=stepped(reward=float("inf")))
defect("success", "the success of step 1 is float; expected bool or None", step=stepped(success=1.0))
defect(
    "seeding",
    "the same seed and actions gave another episode: observation 'state' differs after reset()",
    reset=lambda self, seed: Sound.reset(self, int.from_bytes(os.urandom(4), "big")),
)
defect("other-seeds", "four seeds gave the same episode", reset=lambda self, seed: Sound.reset(self, 0))
defect(
    "own-arrays",
    "observation 'state' of reset() shares its memory with the next one",
    look=lambda self: Observation(state=self.state, text=""),
)
defect(
    "time-limit",
    "the episode goes on after 5 steps, which spec.max_episode_steps declares as the most",
    spec=spec(max_episode_steps=5),
)
defect(
    "time-limit",
    "the episode is truncated after 12 steps; spec.max_episode_steps is 20",
    spec=spec(max_episode_steps=20),
)
defect(
    "clipping",
    "an action beyond the low of spec.action counts for more than the bound: observation 'state' differs after step 1",
    clipped=lambda self, action: action,
)
defect(
    "clipping",
    "step() writes into the action that it was given",
    clipped=lambda self, action: np.clip(action, -1, 1, out=action),
)
defect(
    "render",
    "render() gave float32 (4, 4, 3); expected uint8 (height, width, 3), or None",
    render=lambda self: np.zeros((4, 4, 3), np.float32),
)
defect(
    "render",
    "the episode goes another way when it is drawn",
    render=lambda self: [self.state.fill(0), Sound.render(self)][1],
)


def close_once(self: Any) -> None:
    if self.closed:
        raise RuntimeError("closed already")
    self.closed = True


def alarmed(self: Any, seed: int) -> Any:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    return Sound.reset(self, seed)


defect("close-twice", "RuntimeError: closed already", close=close_once)
defect(
    "standard-output",
    "it prints to standard output: 'hello from Python'",
    __init__=lambda self: print("hello from Python"),
)
defect(
    "standard-output",
    "it prints to standard output: 'hello from below'",
    reset=lambda self, seed: [os.write(1, b"hello from below\n"), Sound.reset(self, seed)][1],
)
defect(
    "standard-input",
    "it reads from standard input: 'Accept (y/n)? '",
    __init__=lambda self: [None, input("Accept (y/n)? ")][0],
)
defect(
    "standard-input",
    "it reads from standard input",
    reset=lambda self, seed: [sys.stdin.readline(), Sound.reset(self, seed)][1],
)
defect("signal-handlers", "it changes the handler of SIGALRM", reset=alarmed)
defect(
    "working-folder",
    "it changes the working folder to /",
    reset=lambda self, seed: [os.chdir("/"), Sound.reset(self, seed)][1],
)
defect(
    "second-simulator",
    "a second simulator gave another episode under the same seed: observation 'state' differs after reset()",
    reset=lambda self, seed: Sound.reset(self, id(self) + seed),
)
defect(
    "reset-in-mid-episode",
    "RuntimeError: not over yet",
    reset=lambda self, seed: [_require_over(self), Sound.reset(self, seed)][1],
)


def _require_over(self: Any) -> None:
    if getattr(self, "count", 8) < 8:
        raise RuntimeError("not over yet")


def test_a_sound_simulator() -> None:
    found = list(outcomes(Sound))
    assert {outcome.state for outcome in found} == {"passed"}
    assert [outcome.check for outcome in found] == [check.name for check in CHECKS]
    assert all(outcome.rule.endswith(".") for outcome in found)


@pytest.mark.parametrize(("check", "message", "members"), DEFECTS, ids=[message[:60] for _, message, _ in DEFECTS])
def test_a_defect_is_found_and_named(check: str, message: str, members: dict[str, Any]) -> None:
    (chosen,) = [known for known in CHECKS if known.name == check]
    found = check_simulator(type("Defective", (Sound,), members), checks=[chosen])
    assert [(outcome.check, outcome.message) for outcome in found] == [(check, message)]
    assert not check_simulator(Sound, checks=[chosen])


def test_every_check_has_a_defect_that_it_finds() -> None:
    assert {check.name for check in CHECKS} == {check for check, _, _ in DEFECTS}


def test_the_process_is_put_back() -> None:
    def disturb(self: Any, seed: int) -> Any:
        os.chdir("/")
        return alarmed(self, seed)

    handler, folder, stdin = signal.getsignal(signal.SIGALRM), os.getcwd(), sys.stdin
    check_simulator(type("Disturbing", (Sound,), {"reset": disturb}))
    assert (signal.getsignal(signal.SIGALRM), os.getcwd(), sys.stdin) == (handler, folder, stdin)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_cannot_be_said_is_skipped_with_its_reason() -> None:
    members = {"spec": spec(max_episode_steps=None, action=Space((2,)), extra={"constant": True}), "render": None}
    found = {outcome.check: outcome for outcome in outcomes(type("Vague", (Sound,), members))}
    assert {name: outcome.message for name, outcome in found.items() if outcome.state == "skipped"} == {
        "time-limit": "spec.max_episode_steps is None",
        "other-seeds": "spec.extra['constant'] says that all episodes are the same",
        "clipping": "spec.action declares no range",
        "render": "there is no render()",
    }


def test_a_renderer_that_is_missing_is_no_violation() -> None:
    def draw(self: Any) -> Any:
        raise SimulatorError("it cannot be drawn here", detail="no EGL")

    found = {outcome.check: outcome for outcome in outcomes(type("Blind", (Sound,), {"render": draw}))}
    assert (found["render"].state, found["render"].message) == ("skipped", "it cannot be drawn here: no EGL")


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: None, "the factory returned None"), (lambda: int("four"), "ValueError: invalid literal for int()")],
)
def test_a_simulator_that_cannot_be_made_fails_once(make: Any, message: str) -> None:
    (found,) = outcomes(make)
    assert (found.check, found.state) == ("making", "failed")
    assert found.message.startswith(message)


def test_it_needs_nothing_but_numpy() -> None:
    """It runs in the simulator's own interpreter."""
    program = (
        "import sys, ebrl.backends.conformance; sys.exit(3 if {'attr', 'dask', 'psutil'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
