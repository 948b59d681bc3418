from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.simulator
Run = Callable[[str, str], dict[str, Any]]

MAKE = """
from ebrl.backends.simulators.metaworld import MetaworldSimulator
def play(simulator, seed, count=12):
    shown, rng = [simulator.reset(seed)["state"]], np.random.default_rng(0)
    for _ in range(count):
        step = simulator.step(rng.uniform(-1, 1, 4))
        shown.append(np.append(step.observation["state"], np.float32(step.reward)))
    return b"".join(part.tobytes() for part in shown).hex()
"""


def test_it_keeps_the_contract(in_environment: Run) -> None:
    found = in_environment(
        "metaworld",
        MAKE
        + """
from ebrl.backends.conformance.suite import check_simulator
result["broken"] = [str(outcome) for outcome in check_simulator(lambda: MetaworldSimulator("reach-v3", horizon=30))]
import mujoco
result["mujoco"] = mujoco.__version__
""",
    )
    assert found == {"broken": [], "mujoco": "3.3.0"}


def test_an_episode_depends_on_its_seed_alone(in_environment: Run) -> None:
    program = (
        MAKE
        + """
names = ("reach-v3", "push-v3", "door-open-v3", "pick-place-v3", "drawer-open-v3", "peg-insert-side-v3")
for name in names:
    simulator = MetaworldSimulator(name)
    fresh = play(simulator, 5)
    other = play(simulator, 6, 40)
    np.random.seed(1)  # Meta-World draws from the global generator, unless it is told not to
    result[name] = [fresh, play(simulator, 5) == fresh, other.startswith(fresh[:312])]
"""
    )
    first, second = in_environment("metaworld", program), in_environment("metaworld", program)
    assert first == second, "two processes see different episodes"
    assert all(again and not alike for _, again, alike in first.values())


def test_goal_horizon_and_success(in_environment: Run) -> None:
    found = in_environment(
        "metaworld",
        MAKE
        + """
simulator = MetaworldSimulator("reach-v3", horizon=60)
seen = simulator.reset(3)["state"]
goal = seen[-3:]
hidden = MetaworldSimulator("reach-v3", hide_goal=True).reset(3)["state"]
result["goal hidden"] = [bool(goal.any()), bool(hidden[-3:].any()), bool((hidden[:-3] == seen[:-3]).all())]
steps = []
for _ in range(60):
    state = (steps[-1].observation if steps else {"state": seen})["state"]
    steps.append(simulator.step(np.append(np.clip(10 * (goal - state[:3]), -1, 1), 0)))
result["flags"] = sorted({type(step.success).__name__ for step in steps})
result["success"] = [steps[0].success, steps[-1].success]
result["cut"] = [sum(step.truncated for step in steps), steps[-1].truncated, any(step.terminated for step in steps)]
result["longest"] = MetaworldSimulator("reach-v3").spec.max_episode_steps
result["hertz"] = round(simulator.spec.control_hz, 6)
""",
    )
    assert found == {
        "goal hidden": [True, False, True],
        "flags": ["bool"],
        "success": [False, True],
        "cut": [1, True, False],
        "longest": 500,
        "hertz": 80.0,
    }


def test_images_are_upright_and_left_out_when_nobody_looks(in_environment: Run) -> None:
    found = in_environment(
        "metaworld",
        MAKE
        + """
from ebrl.backends.simulators.mujoco_cameras import require
from ebrl.errors import UsageError
try:
    require()
except UsageError as reason:
    result["missing"] = reason.message
else:
    simulator = MetaworldSimulator("reach-v3", horizon=3, cameras="corner", image_size=(48, 64), fast_images=True)
    first = simulator.reset(0)["corner"]
    result["image"] = [str(first.dtype), list(first.shape), simulator.fork_safe]
    # The floor is light, the sky is dark grey: the lower edge must be lighter or more colourful than the upper.
    result["upright"] = bool(first[:4].std() < first[-4:].std())
    simulator.observe = False
    steps = [simulator.step(np.zeros(4)) for _ in range(3)]
    result["shown"] = ["corner" in step.observation for step in steps]
    result["render"] = [list(simulator.render().shape), list(MetaworldSimulator("reach-v3").render().shape)]
""",
    )
    if "missing" in found:
        pytest.skip(found["missing"])
    assert found == {
        "image": ["uint8", [48, 64, 3], False],
        "upright": True,
        "shown": [False, False, True],
        "render": [[48, 64, 3], [256, 256, 3]],
    }


def test_names_and_numbers_that_do_not_exist(in_environment: Run) -> None:
    found = in_environment(
        "metaworld",
        MAKE
        + """
from ebrl.errors import UsageError
for name, options in (("reech-v3", {}), ("reach-v3", {"horizon": 501}), ("reach-v3", {"horizon": 0})):
    try:
        MetaworldSimulator(name, **options)
    except UsageError as error:
        result[error.message] = error.hint
""",
    )
    assert found == {
        "no Meta-World task 'reech-v3'": "did you mean 'reach-v3' or 'reach-wall-v3' or 'sweep-v3'?",
        "horizon=501 does not fit Meta-World": "give 1 to 500 steps",
        "horizon=0 does not fit Meta-World": "give 1 to 500 steps",
    }
