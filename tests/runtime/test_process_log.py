"""What processes print stays within bounds, and its beginning and its end are kept."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ebrl.runtime import process_log
from ebrl.runtime.process_log import ProcessLog

from .playing import Play, order

_CHATTER = "for number in range(600_000): print('line', number)\nprint('done', flush=True)"  # 7 MiB


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_log, "_LONGEST", 1 << 20)
    monkeypatch.setattr(process_log, "_HEAD", 1 << 18)
    monkeypatch.setattr(process_log, "_TAIL", 1 << 18)


@pytest.mark.parametrize("named", [True, False])
def test_the_middle_is_left_out(tmp_path: Path, named: bool) -> None:
    log = ProcessLog(str(tmp_path) if named else None, "some")
    with subprocess.Popen([sys.executable, "-c", _CHATTER], stdout=log.file) as process:
        while process.poll() is None:
            log.trim()
            time.sleep(0.01)
    log.trim()
    log.file.seek(0)
    kept = log.file.read()
    assert len(kept) <= 1 << 20
    assert kept.startswith(b"line 0\nline 1\n") and kept.endswith(b"line 599999\ndone\n")
    assert kept.count(b"[ebrl left out ") == 1 and b"\0" not in kept
    assert log.last_words().endswith("line 599999\ndone")
    log.close()


@pytest.mark.parametrize("before", [100, 300_000, 900_000, 5_000_000])
def test_a_predecessor_is_not_shown_after_that_either(tmp_path: Path, before: int) -> None:
    (tmp_path / "some.log").write_text("p" * before)
    log = ProcessLog(str(tmp_path), "some")
    log.file.write(b"o" * 1_000)
    log.file.flush()
    log.trim()
    assert log.last_words() == "o" * 1_000
    log.close()


def test_a_simulator_that_prints_for_ever(tmp_path: Path) -> None:
    with Play(order("disturbing.Printing", log_folder=str(tmp_path)), num_envs=2, num_steps=40) as play:
        deadline_s = time.monotonic() + 30
        while not (file := tmp_path / "environment-1.log").exists() or b"left out" not in file.read_bytes():
            play.batch()
            assert time.monotonic() < deadline_s
        play.until(lambda: all(file.stat().st_size <= 1 << 20 for file in tmp_path.iterdir()))
        assert not play.lost
