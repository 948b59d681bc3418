"""The command `ebrl rehearse`."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebrl.cli import app
from ebrl.observe.records import write_json
from ebrl.planner.profile import Profile
from ebrl.resources.machine_spec import KNOWN

from .planner.profiles import made, point
from .test_cli import FLOW

H100 = {"resource": KNOWN["H100"].name, "core_s": 0.0, "p99_s": 0.5}
ON_DEVICES = {
    "simulation": (point(1, 1, 0.3, p99_s=0.4),),
    "generation": tuple(point(quota, 1, 10 / quota, **{**H100, "p99_s": 12 / quota}) for quota in (50, 100)),
    "training": tuple(point(quota, 64, 300 / quota, **{**H100, "p99_s": 330 / quota}) for quota in (50, 100)),
}


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "flow.py"
    path.write_text(textwrap.dedent(FLOW))
    yield path
    sys.modules.pop("flow", None)


@pytest.fixture
def profile(flow: Path) -> Path:
    return kept(flow, made(stages=ON_DEVICES, window=16, episode=20.0, reset_s=0.5, publish_s=0.1, chunk=10))


def kept(flow: Path, found: Profile) -> Path:
    path = flow.parent / "costs.json"
    write_json(path, found)
    return path


def rehearse(flow: Path, profile: Path, *options: str) -> Result:
    arguments = ["rehearse", str(flow), "--profile", str(profile), "--iterations", "3", *options]
    return CliRunner().invoke(app, arguments)


def figures(folder: Path) -> dict[str, float]:
    rows = json.loads((folder / "rehearsal.json").read_text())["outcomes"]
    return {f"{row['title']} {row['gpus']}": row["rate"] for row in rows}


def test_every_schedule_is_a_row(flow: Path, profile: Path) -> None:
    result = rehearse(flow, profile, "--machine", "2xH100,8c")
    assert result.exit_code == 0, result.output
    for name in ("ebrl", "async", "hybrid", "disaggregated", "colocated", "sync"):
        assert f"\n {name} " in result.stdout and f"\n{name}: training " in result.stdout
    assert "roofline: no schedule exceeds " in result.stdout
    assert "4 environments; iterations of 64 chunk-steps in windows of 16" in result.stderr
    assert "note: the costs of " in result.stderr and "machine Slow CPU 2 cores" in result.stderr


def test_several_machines_and_what_they_do_not_allow(flow: Path, profile: Path, tmp_path: Path) -> None:
    options = ("--machine", "2xH100,8c", "--gpus", "2,1", "--out", str(tmp_path / "out"))
    result = rehearse(flow, profile, *options)
    assert result.exit_code == 0, result.output
    assert "note: async on 1 GPU is left out: " in result.stderr
    names = list(figures(tmp_path / "out"))
    assert names[:2] == ["ebrl 1", "hybrid 1"] and "async 1" not in names and "async 2" in names


def test_equal_seeds_give_equal_figures(flow: Path, profile: Path, tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate(("1", "1", "2")):
        folder = tmp_path / str(number)
        options = ("--schedule", "ebrl", "--seed", seed, "--machine", "2xH100,8c", "--out", str(folder))
        assert rehearse(flow, profile, *options).exit_code == 0
        found.append((figures(folder), (folder / "ebrl-2gpus.trace.json").read_text()))
    assert found[0] == found[1] and found[0][0] != found[2][0]


def test_what_is_kept(flow: Path, profile: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    options = ("--schedule", "ebrl", "--schedule", "async", "--without", "overlap, rebinding", "--out", str(folder))
    result = rehearse(flow, profile, *options, "--machine", "2xH100,8c")
    assert result.exit_code == 0, result.output
    assert {path.name for path in folder.iterdir()} == {
        "rehearsal.json",
        "gantt-2gpus.png",
        "ebrl-without-overlap-rebinding-2gpus.trace.json",
        "async-without-overlap-rebinding-2gpus.trace.json",
    }
    trace = json.loads((folder / "async-without-overlap-rebinding-2gpus.trace.json").read_text())
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X"}
    row = json.loads((folder / "rehearsal.json").read_text())["outcomes"][0]
    assert row["title"] == "ebrl without overlap, rebinding" and row["most_stale"] == 0
    assert "core" in row["usage"]["cores"] or "barrier" in row["usage"]["cores"]
    assert f"picture: {folder / 'gantt-2gpus.png'}" in result.stdout


def test_without_matplotlib(
    flow: Path,
    profile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ebrl.observe.gantt", None)
    options = ("--schedule", "ebrl", "--out", str(tmp_path / "out"), "--machine", "2xH100,8c")
    result = rehearse(flow, profile, *options)
    assert result.exit_code == 0, result.output
    assert "no picture: it needs matplotlib; pip install 'ebrl[plot]'" in result.stdout


def test_a_machine_without_gpus(flow: Path) -> None:
    result = rehearse(flow, kept(flow, made(window=16)), "--machine", "4c", "--schedule", "ebrl")
    assert result.exit_code == 0, result.output
    assert "ebrl: training 1 thread, generation 1 thread, batch 4" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--machine", "8c"], "the profile knows the generation on NVIDIA H100 80GB HBM3, this machine has no GPU"),
        (
            ["--machine", "2xA100,8c"],
            "the profile knows the generation on NVIDIA H100 80GB HBM3, this machine has NVIDIA A",
        ),
        (["--machine", "8c", "--gpus", "1,2"], "a machine without GPUs has no other number of them"),
        (["--machine", "1xH100,8c", "--schedule", "async"], "async on 1 GPU: devices of their own for rollout and tr"),
        (["--machine", "2xH100,8c", "--gpus", "1,two"], "--gpus is '1,two'"),
        (["--machine", "2xH100,8c", "--gpus", "0"], "--gpus is '0'"),
        (["--machine", "2xH10,8c"], "'2xH10' names no known GPU"),
        (["--schedule", "asink"], "there is no schedule 'asink'"),
        (["--without", "pipelines"], "there is no mechanism 'pipelines' to go without"),
        (["--iterations", "0"], "greater than or equal to 1"),
        (["--machine", "2xH100,8c", "--out", "flow.py/there"], "--out flow.py/there cannot be made: "),
    ],
)
def test_mistakes_exit_with_2(
    flow: Path,
    profile: Path,
    options: list[str],
    message: str,
) -> None:
    result = rehearse(flow, profile, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_an_iteration_of_no_whole_windows(flow: Path) -> None:
    result = rehearse(flow, kept(flow, made(window=15)), "--machine", "4c")
    assert result.exit_code == 2
    assert "an iteration of the profile has 64 chunk-steps, which are no whole windows of 15" in result.stderr


def test_a_profile_that_lacks_a_stage(flow: Path, profile: Path) -> None:
    found = made(stages={"simulation": (point(1, 1, 0.01),)})
    result = rehearse(flow, kept(flow, found), "--machine", "4c")
    assert result.exit_code == 2
    assert "says nothing of the generation" in result.stderr


def test_a_profile_is_needed(flow: Path) -> None:
    assert CliRunner().invoke(app, ["rehearse", str(flow)]).exit_code == 2
