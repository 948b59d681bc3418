from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.errors import UsageError
from ebrl.observe.video import Video


def frames(count: int, height: int = 48, width: int = 64) -> Any:
    """A bright bar that moves to the right."""
    film = np.full((count, height, width, 3), 30, np.uint8)
    for index, frame in enumerate(film):
        frame[:, 4 * index : 4 * index + 4] = (200, 40, 40)
    return film


def watch(path: Path) -> tuple[Any, Any]:
    """(frames, frames per second) of a file, as a player sees it."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]), stream.average_rate


def test_what_is_written_is_seen(tmp_path: Path) -> None:
    pytest.importorskip("av")
    video, shot = Video(tmp_path / "videos", "iteration-000002-episode-0", hz=25.0), frames(12)
    for frame in shot:
        video.add(frame)
    path = video.finish("iteration-000002-episode-0-success")
    assert [file.name for file in (tmp_path / "videos").iterdir()] == ["iteration-000002-episode-0-success.mp4"]
    seen, rate = watch(path)
    assert seen.shape == shot.shape
    assert rate == 25
    assert np.abs(seen.astype(int) - shot).mean() < 8


@pytest.mark.parametrize(("hz", "rate"), [(None, 20.0), (1 / 0.05, 20.0), (29.97, 29.97), (12.5, 12.5)])
def test_the_rate_is_the_control_frequency(tmp_path: Path, hz: float | None, rate: float) -> None:
    pytest.importorskip("av")
    video = Video(tmp_path, "film", hz)
    for frame in frames(5):
        video.add(frame)
    assert float(watch(video.finish("film"))[1]) == pytest.approx(rate, rel=1e-3)


def test_odd_sizes_grow_by_one(tmp_path: Path) -> None:
    pytest.importorskip("av")
    video, shot = Video(tmp_path, "film", 10.0), frames(4, height=47, width=33)
    for frame in shot:
        video.add(frame[:, ::-1])  # not contiguous
    seen, _ = watch(video.finish("film"))
    assert seen.shape == (4, 48, 34, 3)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (np.zeros((8, 8, 3), np.float32), r"a frame is float32 \(8, 8, 3\); expected uint8 \(height, width, 3\)"),
        (np.zeros((8, 8), np.uint8), r"a frame is uint8 \(8, 8\); expected uint8 \(height, width, 3\)"),
        (np.zeros((8, 8, 4), np.uint8), r"a frame is uint8 \(8, 8, 4\); expected"),
    ],
)
def test_what_is_no_frame_is_refused(tmp_path: Path, frame: Any, message: str) -> None:
    pytest.importorskip("av")
    video = Video(tmp_path, "film", 10.0)
    with pytest.raises(ValueError, match=message):
        video.add(frame)
    video.drop()
    assert not list(tmp_path.iterdir())


def test_the_size_stays(tmp_path: Path) -> None:
    pytest.importorskip("av")
    video = Video(tmp_path, "film", 10.0)
    video.add(frames(1)[0])
    with pytest.raises(ValueError, match=r"a frame is uint8 \(48, 32, 3\); expected uint8 \(48, 64, 3\)"):
        video.add(frames(1, width=32)[0])
    video.drop()


def test_a_newer_film_of_the_same_name_wins(tmp_path: Path) -> None:
    pytest.importorskip("av")
    for count in (3, 6):
        video = Video(tmp_path, "film", 10.0)
        for frame in frames(count):
            video.add(frame)
        path = video.finish("film")
    assert len(watch(path)[0]) == 6


def test_without_pyav_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UsageError) as caught:
        Video(tmp_path / "videos", "film", 10.0)
    assert caught.value.message == "recording videos needs the package av, which this interpreter lacks"
    assert caught.value.hint == "pip install av"
    assert not list(tmp_path.iterdir())
