from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ebrl.errors import UsageError

pytest.importorskip("mujoco")
if subprocess.run([sys.executable, "-c", "import robosuite"], capture_output=True).returncode:
    pytest.skip("robosuite is not installed", allow_module_level=True)

from ebrl.backends.simulators import mujoco_cameras
from ebrl.backends.simulators.robosuite import RobosuiteSimulator

pytestmark = pytest.mark.simulator

try:
    mujoco_cameras.require()
except UsageError as reason:
    MISSING = f"{reason.message}: {reason.hint}"
else:
    MISSING = ""
draws = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(scope="module")
def lift() -> Iterator[RobosuiteSimulator]:
    simulator = RobosuiteSimulator(
        "Lift", horizon=3, observations="cube_pos", cameras=("agentview", "robot0_eye_in_hand"), image_size=(48, 64)
    )
    yield simulator
    simulator.close()


@draws
def test_cameras_are_observations_under_their_own_names(lift: RobosuiteSimulator) -> None:
    assert list(lift.spec.observation) == ["cube_pos", "agentview", "robot0_eye_in_hand"]
    space = lift.spec.observation["agentview"]
    assert (space.shape, space.dtype, space.low, space.high) == ((48, 64, 3), "uint8", 0, 255)
    for observation in (lift.reset(0), lift.step(np.zeros(7)).observation):
        assert list(observation) == list(lift.spec.observation)
        for name in ("agentview", "robot0_eye_in_hand"):
            assert (observation[name].shape, observation[name].dtype) == ((48, 64, 3), np.uint8)
            assert observation[name].std() > 5


@draws
def test_images_are_those_of_robosuite_turned_upright(lift: RobosuiteSimulator) -> None:
    own = lift.reset(4)["agentview"]
    program = """
import sys
import numpy as np
from ebrl.backends.simulators.robosuite import RobosuiteSimulator
theirs = RobosuiteSimulator("Lift", horizon=3, observations=("agentview_image",), use_camera_obs=True,
    has_offscreen_renderer=True, camera_names="agentview", camera_heights=48, camera_widths=64)
np.save(sys.argv[1], theirs.reset(4)["agentview_image"])
"""
    file = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"robosuite-image-{os.getpid()}.npy")
    try:
        subprocess.run(
            [sys.executable, "-c", program, file],
            check=True,
            capture_output=True,
            env={**os.environ, "MUJOCO_GL": mujoco_cameras.require()},
        )
        theirs = np.load(file)[::-1]
    finally:
        if os.path.exists(file):
            os.unlink(file)
    assert np.abs(own.astype(float) - theirs).mean() < 1.0
    assert own[:8].mean() < own[-8:].mean()  # the dark wall is above the white table


@draws
def test_the_same_seed_gives_the_same_images(lift: RobosuiteSimulator) -> None:
    first = lift.reset(5)["agentview"]
    assert not np.array_equal(first, lift.reset(6)["agentview"])
    lift.step(np.ones(7))
    assert np.array_equal(first, lift.reset(5)["agentview"])


@draws
def test_images_are_left_out_where_nobody_looks_except_at_the_end(lift: RobosuiteSimulator) -> None:
    lift.reset(0)
    lift.observe = False
    try:
        shown = [list(lift.step(np.zeros(7)).observation) for _ in range(3)]
        first = list(lift.reset(0))
    finally:
        lift.observe = True
    assert shown == [["cube_pos"], ["cube_pos"], list(lift.spec.observation)]
    assert first == list(lift.spec.observation)


@draws
@pytest.mark.parametrize("hard_reset", [False, True])
def test_fast_images_stay_fast_and_alike_after_a_reset(hard_reset: bool) -> None:
    simulator = RobosuiteSimulator(
        "Lift", horizon=5, cameras="agentview", image_size=(48, 64), fast_images=True, hard_reset=hard_reset
    )
    images = [simulator.reset(seed)["agentview"] for seed in (1, 2, 1)]
    assert np.array_equal(images[0], images[2])
    assert simulator._environment.sim.model._model.vis.quality.offsamples == 0
    simulator.close()
    stock = RobosuiteSimulator("Lift", horizon=5, cameras="agentview", image_size=(48, 64), hard_reset=hard_reset)
    full = stock.reset(1)["agentview"]
    stock.close()
    assert not np.array_equal(images[0], full)
    assert np.abs(images[0].astype(float) - full).mean() < 20


@draws
def test_states_are_drawn_for_people_without_being_observations() -> None:
    simulator = RobosuiteSimulator("Lift", horizon=3)
    simulator.reset(0)
    assert simulator.fork_safe
    frame = simulator.render()
    assert (frame.shape, frame.dtype) == ((256, 256, 3), np.uint8)
    assert not simulator.fork_safe
    assert frame.std() > 5
    simulator.close()
    simulator.close()


@draws
def test_a_simulator_with_cameras_is_not_fork_safe(lift: RobosuiteSimulator) -> None:
    assert (RobosuiteSimulator.fork_safe, lift.fork_safe) == (True, False)


def test_units_are_declared() -> None:
    spec = RobosuiteSimulator("Lift", observations=("cube_pos", "cube_quat", "robot0_joint_vel", "progress")).spec
    assert spec.extra["units"] == {
        "cube_pos": "m", "cube_quat": "quaternion x, y, z, w", "robot0_joint_vel": "rad/s", "progress": "1",
    }  # fmt: skip
    ranges = [(space.low, space.high) for space in spec.observation.values()]
    assert ranges == [(None, None), (-1, 1), (None, None), (0, 1)]


@draws
@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"cameras": "agentvew"}, "robosuite's Lift has no camera 'agentvew'", "did you mean 'agentview'"),
        ({"cameras": "agentview", "image_size": 128}, "image_size is 128", "give height and width in pixels"),
        ({"cameras": "agentview", "image_size": (0, 8)}, "image_size is (0, 8)", "give height and width in pixels"),
    ],
)
def test_cameras_and_sizes_that_do_not_exist(options: Any, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        RobosuiteSimulator("Lift", **options)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


def test_a_machine_that_cannot_draw_says_which_packages_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mujoco_cameras, "_has_egl", lambda: False)
    monkeypatch.setattr(mujoco_cameras, "_has_osmesa", lambda: False)
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    monkeypatch.setattr(mujoco_cameras, "_ASKED", "")
    with pytest.raises(UsageError) as caught:
        RobosuiteSimulator("Lift", cameras="agentview")
    assert caught.value.message == "images cannot be drawn: this machine has neither EGL with a device nor OSMesa"
    assert caught.value.hint == "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri (EGL), or libosmesa6 (OSMesa)"
    simulator = RobosuiteSimulator("Lift")
    with pytest.raises(UsageError):
        simulator.render()


@pytest.mark.parametrize(
    ("asked", "egl", "osmesa", "found"),
    [
        ("", True, True, "egl"),
        ("", False, True, "osmesa"),
        ("osmesa", True, True, "osmesa"),
        ("egl", True, True, "egl"),
    ],
)
def test_drawing_goes_by_what_is_asked_for_and_there(
    monkeypatch: pytest.MonkeyPatch, asked: str, egl: bool, osmesa: bool, found: str
) -> None:
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    monkeypatch.setattr(mujoco_cameras, "_ASKED", asked)
    monkeypatch.setattr(mujoco_cameras, "_has_egl", lambda: egl)
    monkeypatch.setattr(mujoco_cameras, "_has_osmesa", lambda: osmesa)
    assert mujoco_cameras.require() == found


@pytest.mark.parametrize(("asked", "named"), [("egl", "no EGL with a device"), ("osmesa", "no OSMesa")])
def test_what_is_asked_for_and_missing_is_named(monkeypatch: pytest.MonkeyPatch, asked: str, named: str) -> None:
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    monkeypatch.setattr(mujoco_cameras, "_ASKED", asked)
    monkeypatch.setattr(mujoco_cameras, "_has_egl", lambda: asked != "egl")
    monkeypatch.setattr(mujoco_cameras, "_has_osmesa", lambda: asked != "osmesa")
    with pytest.raises(UsageError, match=named):
        mujoco_cameras.require()
