from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.resources.topology import Topology, core_ranges, parse_cores, read_topology

TWO_NODES = Topology(siblings=((0, 4), (1, 5), (2, 6), (3, 7)), nodes=((0, (0, 1, 4, 5)), (1, (2, 3, 6, 7))))


def system(root: Path, threads: dict[int, str], nodes: dict[int, str], file: str = "core_cpus_list") -> Path:
    """A fake /sys/devices/system: lists of siblings by core, of cores by node."""
    for core, text in threads.items():
        folder = root / "cpu" / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / file).write_text(f"{text}\n")
    for node, text in nodes.items():
        (root / "node" / f"node{node}").mkdir(parents=True)
        (root / "node" / f"node{node}" / "cpulist").write_text(f"{text}\n")
    return root


@pytest.mark.parametrize("file", ["core_cpus_list", "thread_siblings_list"])
def test_siblings_and_nodes_are_read(file: str, tmp_path: Path) -> None:
    threads = {core: f"{core % 4},{core % 4 + 4}" for core in range(8)}
    root = system(tmp_path, threads, {0: "0-1,4-5", 1: "2-3,6-7", 2: ""}, file)
    (root / "cpu" / "cpufreq").mkdir()  # no core
    (root / "node" / "possible").write_text("0-2")
    assert read_topology(root) == TWO_NODES


def test_what_is_missing_is_unknown(tmp_path: Path) -> None:
    assert read_topology(tmp_path / "none") == Topology()
    assert read_topology(system(tmp_path, {0: "zero", 1: "3-1"}, {0: "?"})) == Topology()


def test_physical_cores_are_counted() -> None:
    assert TWO_NODES.physical([0, 4, 1]) == 2
    assert TWO_NODES.physical([0, 99]) is None
    assert Topology().physical([0]) is None
    assert (TWO_NODES.node(3), TWO_NODES.node(99)) == (1, None)


def test_one_thread_of_each_physical_core_comes_first() -> None:
    assert TWO_NODES.spread(range(8)) == (0, 1, 2, 3, 4, 5, 6, 7)
    neighbours = Topology(siblings=((0, 1), (2, 3), (4, 5)))
    assert neighbours.spread(range(6)) == (0, 2, 4, 1, 3, 5)
    assert neighbours.spread([1, 4, 5]) == (1, 4, 5)  # of 0 and 1 only 1 may be used
    far = Topology(siblings=((0, 1), (2, 3)), nodes=((0, (2, 3)), (1, (0, 1))))
    assert far.spread(range(4)) == (2, 0, 3, 1)
    assert Topology().spread([7, 5]) == (5, 7)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_text_and_cores_are_the_same(cores: set[int]) -> None:
    assert parse_cores(core_ranges(cores)) == tuple(sorted(cores))
    assert sorted(TWO_NODES.spread(cores)) == sorted(cores)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "1.5", "1234567", "\u0663"])
def test_what_is_no_list_of_cores(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither a core id|before it begins"):
        parse_cores(text)


def test_this_machine() -> None:
    found = read_topology(Path("/sys/devices/system"))
    assert all(found.siblings)
    assert all(members for _, members in found.nodes)
