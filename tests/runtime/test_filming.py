"""Evaluations of real environment processes, on film."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.graph.items import ActionChunk, Batch, Weights
from ebrl.runtime.environments import Environments
from ebrl.runtime.reporting import Report, collect
from ebrl.runtime.rollout_settings import RolloutSettings
from ebrl.runtime.seeding import reset_seed
from ebrl.stages import evaluate

from .playing import order


class Still:
    """A policy that does nothing."""

    chunk = 2

    def act(self, observations: Any, *, deterministic: bool) -> Batch[ActionChunk]:
        rows = len(observations)
        return Batch.stacked(ActionChunk, actions=np.zeros((rows, 2, 1), np.float32))

    def load(self, arrays: Any) -> None: ...


@contextmanager
def environments(simulator: str, videos: Path | None, num_envs: int = 2, **options: Any) -> Iterator[Environments]:
    settings = RolloutSettings(
        order=order(simulator, **options), num_envs=num_envs, num_steps=None, chunk=2, cores=(0, 1), in_order=True
    )
    made = Environments(settings, videos=videos)
    try:
        yield made
    finally:
        made.close()


def judge(playing: Environments, version: int = 2, **settings: Any) -> Report:
    with collect() as found:
        evaluate(playing, Still(), Weights.of(version, {}), **{"episodes": 5, **settings})
    report: Report = found
    return report


def events(report: Report, kind: str) -> list[Any]:
    return [data for found, data in report.events if found == kind]


def watch(path: Path) -> Any:
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        assert container.streams.video[0].average_rate == 10
        return np.stack([frame.to_ndarray(format="gray") for frame in container.decode(video=0)])


def test_the_first_episodes_are_filmed_frame_by_frame(tmp_path: Path) -> None:
    pytest.importorskip("av")
    # Episodes end by success at step 5, or without it at 4 or 6, depending on the seed.
    with environments("drawing.Drawing", tmp_path / "videos", at=5, lengths=[4, 6]) as playing:
        report = judge(playing, record_video=3)
        names = sorted(file.name for file in (tmp_path / "videos").iterdir())
        assert [name[:27] for name in names] == [f"iteration-000002-episode-{index}-" for index in range(3)]
        assert sorted(data["path"] for data in events(report, "video")) == [
            str(tmp_path / "videos" / name) for name in names
        ]
        for name in names:
            film = watch(tmp_path / "videos" / name)
            success = name.endswith("-success.mp4")
            assert success or name.endswith("-failure.mp4")
            assert len(film) == (6 if success else 5)  # the observation of the reset, and one per step
            widths = [round(float(frame[16].astype(float).sum()) / 255) for frame in film]
            assert widths == pytest.approx([4 * step for step in range(len(film))], abs=2)
        assert not events(judge(playing, version=3, record_video=0), "video")
        judge(playing, version=4, record_video=1)
        assert len(list((tmp_path / "videos").iterdir())) == 4


def test_filming_changes_no_result(tmp_path: Path) -> None:
    pytest.importorskip("av")
    with environments("drawing.Drawing", tmp_path, at=5, lengths=[4, 6, 8]) as playing:
        filmed, unseen = judge(playing, record_video=5), judge(playing)
    assert filmed.metrics == unseen.metrics
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize(
    ("simulator", "options", "why"),
    [
        ("counting.Counting", {}, "the simulator renders no image"),
        ("drawing.Drawing", {"how": "nothing"}, "the simulator renders no image"),
        ("drawing.Drawing", {"how": "raise"}, "RuntimeError: no light here"),
        ("drawing.Drawing", {"how": "float"}, "a frame is float32 (32, 48, 3); expected uint8 (height, width, 3)"),
    ],
)
def test_what_cannot_be_filmed_costs_one_line(tmp_path: Path, simulator: str, options: Any, why: str) -> None:
    pytest.importorskip("av")
    with environments(simulator, tmp_path / "videos", lengths=[6], **options) as playing:
        report = judge(playing, record_video=3)
    assert report.metrics["episodes"] == 5
    [warning] = events(report, "warning")
    assert warning["message"].partition(": ")[2] == why
    assert warning["message"].startswith("no video of episode ")
    assert not list(tmp_path.rglob("*.mp4"))


def test_an_evaluation_that_is_broken_off_leaves_no_half_film(tmp_path: Path) -> None:
    pytest.importorskip("av")
    with environments("drawing.Drawing", tmp_path, at=100, lengths=[3, 60]) as playing:
        judge(playing, episodes=12, record_video=12, stop_at=0.9)
    assert all(name.name.endswith("-failure.mp4") for name in tmp_path.iterdir())


def test_a_lost_environment_leaves_the_film_up_to_there(tmp_path: Path) -> None:
    pytest.importorskip("av")
    first = [reset_seed(0, "simulate", 0, 0)]
    with environments("drawing.Drawing", tmp_path, num_envs=1, dies=True, at=4, seeds=first, lengths=[6]) as playing:
        report = judge(playing, episodes=2, record_video=1)
    [path] = tmp_path.iterdir()
    assert path.name == "iteration-000002-episode-0-lost.mp4"
    assert len(watch(path)) == 4
    assert report.metrics["episodes"] == 1


def test_without_a_folder_one_line_says_so() -> None:
    with environments("drawing.Drawing", None, lengths=[3]) as playing:
        report = judge(playing, record_video=1)
    assert events(report, "warning") == [
        {"message": "no videos: they are kept only where a stage runs beside the run's directory"}
    ]
