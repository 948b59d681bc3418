"""A profile on the screen and as a picture."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from ebrl.observe.profile_progress import (
    LiveProfileProgress,
    PlainProfileProgress,
    point_line,
    profile_progress,
)
from ebrl.observe.profile_table import COLUMNS, milliseconds, profile_table

from ..planner.profiles import made, point

H100 = "NVIDIA H100 80GB HBM3"
LARGE = made(
    machine=f"AMD EPYC 9654 96-Core Processor 192 cores, 8x {H100}",
    simulator="libero:libero_object/3",
    stages={
        "simulation": tuple(point(cores, 1, 3.2 / cores, memory_mib=123_456.0) for cores in (192, 1, 24)),
        "generation": tuple(point(50, batch, 0.1 + 0.02 * batch, resource=H100) for batch in (1, 64, 8)),
        "training": (point(4, 4096, 123.4, interval=0.04),),
    },
    together={"simulation": 1.07, "generation": 1.21, "training": 1.5},
)


def console(*, terminal: bool, width: int = 80, kind: str = "xterm") -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=width, _environ={"TERM": kind}), out


def shown(profile: object) -> list[str]:
    target, out = console(terminal=False)
    target.print(profile_table(profile))  # type: ignore[arg-type]
    return out.getvalue().splitlines()


@pytest.mark.parametrize("profile", [made(), LARGE])
def test_the_table_fits_80_columns_and_cuts_nothing(profile: object) -> None:
    lines = shown(profile)
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    header = next(line for line in lines if line.strip().startswith("stage"))
    assert all(name in header for name in COLUMNS)


def test_points_are_in_order_whatever_the_order_of_measuring() -> None:
    lines = [line.split() for line in shown(LARGE)]
    first = next(index for index, words in enumerate(lines) if words[:1] == ["simulation"])
    assert [lines[first][1:3], lines[first + 1][:2], lines[first + 2][:2]] == [
        ["1", "core"],
        ["24", "cores"],
        ["192", "cores"],
    ]
    assert lines[first][3:] == ["1", "0.31", "2", "%", "3,200", "6,400", "3,200"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(9.4e-5, "0.09"), (0.00999, "9.99"), (0.0123, "12.3"), (0.5, "500"), (123.4, "123,400")]
)
def test_milliseconds(seconds: float, text: str) -> None:
    assert milliseconds(seconds) == text


def test_a_point_as_a_line() -> None:
    assert point_line("generation", point(2, 8, 0.016)) == (
        "generation on 2 threads, batch 8: 500 chunk-steps/s, 16.00 ms, +-2 %"
    )
    assert point_line("training", point(50, 8, 0.016, resource="H100")).startswith("training on 50 % H100, batch 8")


def test_plain_lines_where_there_is_no_terminal() -> None:
    target, out = console(terminal=False)
    display = profile_progress(target, 120.0)
    assert isinstance(display, PlainProfileProgress)
    with display:
        display.phase("simulation")
        display.time(3.0)
        display.point("simulation", point(1, 1, 0.01))
        display.time(60.0)
    assert out.getvalue().splitlines() == [
        "starting the workers",
        "measuring simulation",
        "simulation on 1 core, batch 1: 100 chunk-steps/s, 10.00 ms, +-2 %",
    ]


def test_a_dumb_terminal_has_no_bar() -> None:
    assert isinstance(profile_progress(console(terminal=True, kind="dumb")[0], 1.0), PlainProfileProgress)


def test_a_bar_over_the_budget_in_a_terminal() -> None:
    target, out = console(terminal=True)
    display = profile_progress(target, 120.0)
    assert isinstance(display, LiveProfileProgress)
    with display:
        display.phase("generation")
        display.time(42.4)
        display.point("generation", point(1, 8, 0.001))
        display.time(130.0)  # the last points may take longer
    text = out.getvalue()
    assert "measuring generation" in text and "42 of 120 s" in text and "130 of 120 s" in text
    assert text.count("generation on 1 thread, batch 8: 8,000 chunk-steps/s") == 1


@pytest.mark.parametrize(
    "profile", [made(), LARGE, made(stages={"training": (point(1, 64, 0.1),)}), made(stages={"simulation": ()})]
)
def test_a_picture(profile: object, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from ebrl.observe.profile_plot import draw

    draw(profile, tmp_path / "profile.png")  # type: ignore[arg-type]
    assert (tmp_path / "profile.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_picture_says() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from ebrl.observe.profile_plot import panel

    axes = Figure().subplots()
    rows = tuple(point(cores, 1, 1 / min(cores, 8)) for cores in (1, 2, 4, 8, 16, 32))
    panel(axes, "simulation", rows)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cores", "rate (chunk-steps/s)")
    (label,) = (text.get_text() for text in axes.get_legend().get_texts())
    assert label == "cpu, knee at 8"
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "4", "8", "16", "32"]
