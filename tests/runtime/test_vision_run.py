"""Images, text and state through the whole engine, and out of it as a video."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from ebrl.errors import EbrlError

from .conftest import WORKFLOWS, Outcome

SEEING = WORKFLOWS.with_name("seeing.py")


@pytest.mark.slow
def test_images_and_text_reach_policy_and_loss(launch: Callable[..., Outcome]) -> None:
    filmed = 2 if importlib.util.find_spec("av") else 0
    outcome = launch("seeing", f"record_video={filmed}", file=SEEING)
    assert [row["iteration"] for row in outcome.metrics()] == [0, 1]
    assert all(np.isfinite(row["train_ppo/loss"]) for row in outcome.metrics())
    [report] = outcome.of("report")
    assert report["metrics"]["episodes"] == 4
    weights = load_file(outcome.folder / "policy.safetensors")
    assert {"image/eye/0/weight", "text/instruction", "state/0/weight", "normalization/mean"} <= set(weights)
    assert weights["normalization/count"] > 0
    if filmed:
        _check_videos(outcome)


def _check_videos(outcome: Outcome) -> None:
    import av

    paths = sorted((outcome.folder / "videos").iterdir())
    assert [path.name[:27] for path in paths] == ["iteration-000002-episode-0-", "iteration-000002-episode-1-"]
    assert {path.name[27:] for path in paths} <= {"success.mp4", "failure.mp4"}
    assert sorted(event["path"] for event in outcome.of("video")) == [str(path) for path in paths]
    with av.open(str(paths[0])) as container:
        assert container.streams.video[0].average_rate == 10
        assert [frame.width for frame in container.decode(video=0)] == [40] * 6
    lines = [json.loads(line) for line in (outcome.folder / "events.jsonl").read_text().splitlines()]
    assert sum(line["kind"] == "video" for line in lines) == 2


@pytest.mark.slow
def test_a_missing_package_is_told_before_anything_is_trained(
    launch: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "av.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(tmp_path)  # workers get this process's path
    done = []
    with pytest.raises(EbrlError, match="recording videos needs the package av") as caught:
        launch("seeing", "record_video=2", file=SEEING, during=lambda run, iteration: done.append(iteration))
    assert caught.value.hint == "pip install av"
    assert not done
