from __future__ import annotations

import os
from pathlib import Path

import pytest

from ebrl.observe.output import Output


def test_what_nobody_reads_is_dropped() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        output = Output(stream)
        output.write("one\n")
        output.flush()
        assert (os.read(reading, 10), output.closed) == (b"one\n", False)
        os.close(reading)
        output.write("two\n")
        output.flush()
        assert output.closed
        assert output.write("three\n") == 6
        output.flush()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_no_error() -> None:
    with open("/dev/full", "w") as stream:
        output = Output(stream)
        output.write("text")
        output.flush()
        assert output.closed


def test_what_cannot_be_encoded_is_escaped(tmp_path: Path) -> None:
    file = tmp_path / "out"
    with open(file, "w", encoding="utf-8", errors="strict") as stream:
        print("run caf\udce9", file=Output(stream))
    assert file.read_text() == "run caf\\udce9\n"
