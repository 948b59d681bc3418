from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.simulator, pytest.mark.slow]
Run = Callable[[str, str], dict[str, Any]]

MAKE = """
from ebrl.backends.simulators.libero import LiberoSimulator
def digest(observation):
    return b"".join(part.tobytes() for part in observation.values()).hex()[:4096]
"""


def test_it_keeps_the_contract(in_environment: Run) -> None:
    found = in_environment(
        "libero",
        MAKE
        + """
from ebrl.backends.conformance.suite import check_simulator
result["broken"] = [
    str(outcome) for outcome in check_simulator(lambda: LiberoSimulator("libero_object/0", horizon=20, settle=2))
]
""",
    )
    assert found == {"broken": []}


def test_it_says_what_it_is_and_touches_nothing(in_environment: Run) -> None:
    found = in_environment(
        "libero",
        """
import os, shutil, tempfile
home = tempfile.mkdtemp()
os.mkdir(os.path.join(home, "temporary"))
tempfile.tempdir = os.path.join(home, "temporary")
os.environ["HOME"] = home
os.environ["LIBERO_CONFIG_PATH"] = os.path.join(home, "never")
"""
        + MAKE
        + """
simulator = LiberoSimulator("libero_goal/7", observations=("robot0_eef_pos", "instruction", "progress"))
spec = simulator.spec
result["instruction"] = [spec.instruction, simulator.reset(0)["instruction"], spec.observation["instruction"].dtype]
result["spec"] = [list(spec.observation), list(spec.action.shape), spec.control_hz, spec.max_episode_steps]
result["names"] = [spec.extra[key] for key in ("suite", "task", "index", "initial_states", "control")]
result["sources"] = ["MIT" in spec.extra["code"], "MIT" in spec.extra["assets"], "HOPE" in spec.extra["assets"]]
result["left"] = [name for name in os.listdir(home) if name in ("never", ".libero")] + os.listdir(tempfile.tempdir)
result["configuration"] = os.environ["LIBERO_CONFIG_PATH"] == os.path.join(home, "never")
result["torch"] = "torch" in sys.modules
shutil.rmtree(home)
""",
    )
    assert found == {
        "instruction": ["turn on the stove", "turn on the stove", "str"],
        "spec": [["robot0_eef_pos", "instruction", "progress"], [7], 20.0, 600],
        "names": ["libero_goal", "turn_on_the_stove", 7, 50, "compiled"],
        "sources": [True, True, True],
        "left": [],
        "configuration": True,
        "torch": False,
    }


def test_initial_states_are_chosen_by_the_seed_alone(in_environment: Run) -> None:
    program = (
        MAKE
        + """
simulator = LiberoSimulator("libero_spatial/0", settle=0)
chosen = {}
for seed in range(60):
    simulator.reset(seed)
    qpos = np.append(simulator._environment.sim.data.time, simulator._environment.sim.data.qpos)
    states = simulator._states[:, : len(qpos)]
    chosen[seed] = int(np.abs(states - qpos).max(axis=1).argmin())
    assert np.array_equal(states[chosen[seed]], qpos)
result["chosen"] = chosen
simulator.step(np.ones(7))
result["start"] = digest(simulator.reset(5))
"""
    )
    first, second = in_environment("libero", program), in_environment("libero", program)
    assert first == second
    assert len(set(first["chosen"].values())) > 25


@pytest.mark.parametrize(
    "target", ["libero_object/0", "libero_spatial/3", "libero_goal/7", "libero_10/0", "libero_90/1"]
)
def test_the_suites_run(in_environment: Run, target: str) -> None:
    found = in_environment(
        "libero",
        MAKE
        + f"""
simulator = LiberoSimulator({target!r}, horizon=200)
def play(seed, count):
    rng, shown = np.random.default_rng(seed), [digest(simulator.reset(seed))]
    return shown + [digest(simulator.step(rng.uniform(-1, 1, 7)).observation) for _ in range(count)]
fresh = play(5, 10)
play(6, 20)
result["same"] = [play(5, 10) == fresh, play(6, 1)[0] == fresh[0]]
named = simulator.spec.extra["task"]
suite = simulator.spec.extra["suite"]
from ebrl.backends.simulators.libero_package import LiberoPackage
result["by name"] = LiberoPackage().task(suite + "/" + named)[1] == simulator.spec.extra["index"]
simulator.reset(1)
rng = np.random.default_rng(1)
steps = [simulator.step(rng.uniform(-1, 1, 7)) for _ in range(200)]
result["flags"] = sorted({{type(step.success).__name__ for step in steps}})
result["cut"] = [sum(step.truncated for step in steps), steps[-1].truncated]
""",
    )
    assert found == {"same": [True, False], "by name": True, "flags": ["bool"], "cut": [1, True]}


def test_success_ends_the_episode_with_reward_one(in_environment: Run) -> None:
    found = in_environment(
        "libero",
        MAKE
        + """
simulator = LiberoSimulator("libero_goal/7")
simulator.reset(0)
before = simulator.step(np.zeros(7))
environment = simulator._environment
stove = environment.object_states_dict["flat_stove_1"]
joint = environment.get_object("flat_stove_1").joints[0]
environment.sim.data.set_joint_qpos(joint, np.pi / 2)
after = simulator.step(np.zeros(7))
for name, step in (("before", before), ("after", after)):
    result[name] = [step.reward, step.terminated, step.truncated, step.success]
""",
    )
    assert found == {"before": [0.0, False, False, False], "after": [1.0, True, False, True]}


def test_the_arm_holds_still_under_zero_actions(in_environment: Run) -> None:
    # An initial state is set behind the controller's back: it must not pull towards the pose of the reset.
    found = in_environment(
        "libero",
        MAKE
        + """
simulator = LiberoSimulator("libero_object/0")
first = simulator.reset(0)["robot0_eef_pos"]
last = [simulator.step(np.zeros(7)).observation["robot0_eef_pos"] for _ in range(10)][-1]
result["moved"] = float(np.abs(last - first).max())
""",
    )
    assert found["moved"] < 0.005


def test_compiled_control_gives_the_trajectory_of_the_stock_one(in_environment: Run) -> None:
    found = in_environment(
        "libero",
        MAKE
        + """
def play(**options):
    simulator, rng = LiberoSimulator("libero_spatial/0", **options), np.random.default_rng(0)
    simulator.reset(2)
    steps = [simulator.step(rng.uniform(-0.5, 0.5, 7)) for _ in range(10)]
    return simulator.spec.extra["control"], np.array([step.observation["robot0_joint_pos"] for step in steps])
(fast, one), (stock, other) = play(), play(fast_control=False)
result["control"] = [fast, stock]
result["difference"] = float(np.abs(one - other).max())
""",
    )
    assert found["control"] == ["compiled", "stock: fast_control is off"]
    assert found["difference"] < 1e-5


def test_images(in_environment: Run) -> None:
    found = in_environment(
        "libero",
        MAKE
        + """
from ebrl.backends.simulators.mujoco_cameras import require
from ebrl.errors import UsageError
try:
    require()
except UsageError as reason:
    result["missing"] = reason.message
else:
    simulator = LiberoSimulator(
        "libero_object/0", horizon=2, observations="progress", cameras=("agentview", "robot0_eye_in_hand"),
        image_size=(40, 56), fast_images=True, settle=0,
    )
    first = simulator.reset(0)
    result["shapes"] = {key: [str(value.dtype), list(value.shape)] for key, value in first.items()}
    result["pictures"] = all(first[key].std() > 10 for key in ("agentview", "robot0_eye_in_hand"))
    simulator.observe = False
    result["shown"] = ["agentview" in simulator.step(np.zeros(7)).observation for _ in range(2)]
    result["same"] = bool((simulator.reset(0)["agentview"] == first["agentview"]).all())
""",
    )
    if "missing" in found:
        pytest.skip(found["missing"])
    assert found == {
        "shapes": {
            "progress": ["float32", [1]],
            "agentview": ["uint8", [40, 56, 3]],
            "robot0_eye_in_hand": ["uint8", [40, 56, 3]],
        },
        "pictures": True,
        "shown": [False, True],
        "same": True,
    }


def test_names_that_do_not_exist(in_environment: Run) -> None:
    found = in_environment(
        "libero",
        MAKE
        + """
from ebrl.errors import UsageError
for target, options in (
    ("libero_objects/0", {}), ("libero_object/10", {}), ("libero_object", {}), ("libero_goal/turn_on_the_stov", {}),
    ("libero_object/0", {"observations": ("robot0_eef",)}), ("libero_object/0", {"assets": "/nowhere"}),
):
    try:
        LiberoSimulator(target, **options)
    except UsageError as error:
        result[error.message] = error.hint
""",
    )
    assert found["no LIBERO suite 'libero_objects'"].startswith("did you mean 'libero_object'")
    assert found["libero_object has no task '10'"] == "give an index from 0 to 9, or a name"
    assert found["libero_object has no task ''"] == "give an index from 0 to 9, or a name"
    assert found["libero_goal has no task 'turn_on_the_stov'"].startswith(
        "give an index from 0 to 9, or a name; did you mean 'turn_on_the_stove'"
    )
    assert found["libero_object/0 has no observation 'robot0_eef'"].startswith("did you mean 'robot0_eef_pos'")
    assert "assets='/nowhere' holds no meshes of LIBERO: it has no folder 'scenes'" in found
    assert len(found) == 6
