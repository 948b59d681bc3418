"""The profile file: that it comes back as it was, and what is said of one that does not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.errors import UsageError
from ebrl.observe.records import plain, write_json
from ebrl.planner.costs import CPU
from ebrl.planner.profile import SCHEMA, Measured, Profile, doubts, explore, merged, read_profile

from .profiles import made, point


def test_a_profile_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = made(together={"training": 1.2}, others_core_s=0.001, episode=20.0, provenance={"episode": "assumed: so"})
    write_json(tmp_path / "profile.json", kept)
    assert read_profile(tmp_path / "profile.json") == kept


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": SCHEMA + 1}, f"has the schema {SCHEMA + 1}, this ebrl reads {SCHEMA}"),
        ({"schema": None}, "has the schema None, this ebrl reads 3"),
        ({"cores": "two"}, "is no profile"),
        ({"speed": 3}, "is no profile"),
        ({"stages": {"training": [{"quota": 1}]}}, "is no profile"),
        ({"stages": {"training": [plain(point(0, 1, 1.0))]}}, "is no profile"),
        ({"stages": {"training": [{**plain(point(1, 1, 1.0)), "seconds": 0.0}]}}, "is no profile"),
    ],
)
def test_a_file_that_is_no_profile_of_today(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**plain(made()), **changes}))
    with pytest.raises(UsageError) as caught:
        read_profile(path)
    assert caught.value.message == f"{path} {message}"
    assert caught.value.hint == "make it again: ebrl profile"


@pytest.mark.parametrize("text", ["", "{", "\x00"])
def test_a_file_that_is_no_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cut.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not JSON"):
        read_profile(path)


def test_a_file_that_holds_something_else(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text("[1]")
    with pytest.raises(UsageError, match="has the schema None"):
        read_profile(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        read_profile(tmp_path / "none.json")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "image.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not JSON"):
        read_profile(path)


def test_nothing_is_doubted_where_all_is_as_it_was() -> None:
    assert list(doubts(made(), made())) == []


@pytest.mark.parametrize(
    ("name", "value", "doubt"),
    [
        ("machine", "Fast CPU 64 cores", "it was measured with machine Slow CPU 2 cores, here it is Fast CPU 64 cores"),
        ("cores", 1, "it was measured with cores 2, here it is 1"),
        ("simulator", "libero:x/3", "it was measured with simulator gymnasium:Pendulum-v1, here it is libero:x/3"),
        ("policy", "mlp(hidden=(8,))", "it was measured with policy mlp(), here it is mlp(hidden=(8,))"),
        ("environments", 8, "it was measured with environments 4, here it is 8"),
        ("chunk", 5, "it was measured with chunk 1, here it is 5"),
        ("iteration", 128, "it was measured with iteration 64, here it is 128"),
        ("versions", {"ebrl": "0.1.0", "torch": "2.9.0"}, "it was measured with torch 2.8.0, here it is 2.9.0"),
    ],
)
def test_what_became_of_the_machine_is_named(name: str, value: Any, doubt: str) -> None:
    assert list(doubts(made(), attrs.evolve(made(), **{name: value}))) == [doubt]
    assert list(doubts(made(), {name: value})) == [doubt]


def test_packages_that_are_not_installed_are_not_doubted() -> None:
    assert list(doubts(made(), {"versions": {"numpy": "2.0"}})) == []


def test_its_costs_are_those_beside_the_other_stages() -> None:
    profile = made(together={"generation": 1.5})
    table = profile.costs("generation").on(CPU)
    alone = made().costs("generation").on(CPU)
    assert table is not None and alone is not None
    assert table.seconds(1, 4) == pytest.approx(1.5 * alone.seconds(1, 4))
    assert profile.costs("training").on(CPU) == made().costs("training").on(CPU)
    assert profile.costs("training").on("H100") is None


def test_points_on_devices_have_a_table_of_their_own() -> None:
    rows = (point(1, 1, 0.1), point(100, 1, 0.01, resource="H100"))
    costs = made(stages={"generation": rows}).costs("generation")
    assert set(costs.tables) == {CPU, "H100"}
    assert costs.devices() == ("H100",)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "slow_cpu_2_cores-gymnasium_pendulum_v1-mlp.json"),
        ({"policy": "flow(hidden=64, layers=(1, 2))"}, "slow_cpu_2_cores-gymnasium_pendulum_v1-flow.json"),
        ({"machine": "../Größe/1", "simulator": ""}, "gr_e_1-none-mlp.json"),
    ],
)
def test_its_file_is_named_after_what_it_is_of(changes: dict[str, Any], name: str) -> None:
    assert made(**changes).file_name == name


def test_a_stage_that_was_not_measured_has_no_costs() -> None:
    partial = made(stages={"training": made().stages["training"], "simulation": ()})
    assert partial.missing == ("simulation", "generation")
    with pytest.raises(UsageError) as caught:
        partial.costs("simulation")
    assert caught.value.message == "the profile of pendulum says nothing of the simulation"
    assert caught.value.hint.endswith("ebrl profile FILE --stage simulation")


def test_stages_that_were_not_measured_again_are_kept() -> None:
    kept = made(together={"simulation": 1.1, "training": 1.2})
    again = (point(1, 64, 0.1),)
    found = made(stages={"training": again}, together={"training": 1.5}, created="later")
    both = merged(kept, found)
    assert both.stages == {**kept.stages, "training": again}
    assert (both.together, both.created) == ({"simulation": 1.1, "training": 1.5}, "later")


def test_what_is_never_measured_is_kept() -> None:
    kept = made(episode=40.0, reset_s=2.0, provenance={"episode": "published: there"})
    again = merged(kept, made(reset_s=3.0))
    assert (again.episode, again.reset_s, again.provenance) == (40.0, 3.0, kept.provenance)


def test_how_calls_vary_is_in_median_and_p99() -> None:
    rows = tuple(point(1, batch, 1.0, p99_s=math.exp(2.326 * sigma)) for batch, sigma in ((1, 0.1), (2, 0.3), (4, 0.2)))
    assert made(stages={"training": rows}).sigma("training") == pytest.approx(0.2)
    assert made(stages={"training": (point(1, 1, 1.0, p99_s=0.9),)}).sigma("training") == 0.0
    assert made(stages={}).sigma("simulation") == 0.0


@pytest.mark.parametrize("changes", [{"environments": 8}, {"workflow": "other"}, {"versions": {"torch": "1"}}])
def test_what_does_not_fit_is_not_kept(changes: dict[str, Any]) -> None:
    found = made(stages={"training": ()})
    assert merged(made(**changes), found) == found


@pytest.mark.parametrize(
    ("measured", "stage", "text"),
    [
        (point(1, 1, 0.1), "simulation", "1 core"),
        (point(2, 1, 0.1), "simulation", "2 cores"),
        (point(1, 1, 0.1), "training", "1 thread"),
        (point(50, 1, 0.1, resource="NVIDIA H100 80GB HBM3"), "generation", "50 % H100 80GB HBM3"),
    ],
)
def test_where_a_point_was_measured(measured: Measured, stage: str, text: str) -> None:
    assert measured.place(stage) == text


@given(st.integers(1, 300), st.integers(0, 300))
def test_a_straight_line_is_explored_with_three_points(low: int, more: int) -> None:
    asked: list[int] = []

    def measure(batch: int) -> float:
        asked.append(batch)
        return 1.0 + batch

    found = explore(low, low + more, measure)
    assert len(asked) == len(set(asked)) <= 3
    assert list(found) == sorted(found) and {low, low + more} <= set(found)


def test_where_the_line_bends_it_looks_closer() -> None:
    found = explore(1, 64, lambda cores: float(min(cores, 8)))
    assert {1, 8, 64} <= set(found)
    assert found == {cores: min(cores, 8) for cores in found}


def test_the_schema_is_part_of_the_file() -> None:
    assert plain(made())["schema"] == SCHEMA == Profile.__attrs_attrs__[0].default


def test_a_gap_is_wall_time_without_cpu_time() -> None:
    """Of the largest number of cores: 2 cores for 6 ms, of which a chunk needs 10 ms."""
    simulation = (point(1, 1, 0.011, core_s=0.010), point(2, 1, 0.006, core_s=0.010))
    assert made(stages={"simulation": simulation}).gap_s == pytest.approx(0.002)
    assert made().gap_s == 0.0 == made(stages={}).gap_s


def test_a_measured_spread_goes_before_that_of_latencies() -> None:
    told = made(stages={"simulation": (point(1, 1, 0.010, spread=0.2), point(2, 1, 0.005, spread=0.5))})
    assert told.sigma("simulation") == 0.2
    assert made().sigma("simulation") > 0.25
