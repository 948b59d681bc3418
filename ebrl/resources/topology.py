"""Which core ids share a physical core or a NUMA node, as Linux tells it. What it does not tell is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import attrs


@attrs.define(frozen=True, kw_only=True)
class Topology:
    """The shape of the cores of one machine; empty tuples where it is unknown."""

    siblings: tuple[tuple[int, ...], ...] = ()
    """Per physical core its threads (SMT siblings), as ascending core ids."""
    nodes: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(number of the NUMA node, its core ids). A node without cores is left out."""

    def physical(self, cores: Iterable[int]) -> int | None:
        """How many physical cores `cores` lie on; None where one of them is unknown."""
        homes = [next((group for group in self.siblings if core in group), None) for core in cores]
        return None if None in homes else len(set(homes))

    def node(self, core: int) -> int | None:
        """The NUMA node of a core."""
        return next((number for number, members in self.nodes if core in members), None)

    def spread(self, cores: Iterable[int]) -> tuple[int, ...]:
        """`cores` in the order in which to take some of them: a thread of every physical core before the second
        threads, and of these node by node, in ascending order."""
        chosen = sorted(cores)

        def rank(core: int) -> tuple[int, int, int]:
            mine = next((group for group in self.siblings if core in group), (core,))
            node = self.node(core)
            return [thread for thread in chosen if thread in mine].index(core), -1 if node is None else node, core

        return tuple(sorted(chosen, key=rank))


def read_topology(root: Path) -> Topology:
    """The topology below `root`, ``/sys/devices/system`` of a Linux machine. Raises nothing: a file that is missing
    or cannot be understood leaves its part unknown."""
    groups = {
        threads
        for folder in _numbered(root / "cpu", "cpu")
        if (threads := _cores(folder / "topology/core_cpus_list") or _cores(folder / "topology/thread_siblings_list"))
    }
    nodes = {int(folder.name[4:]): _cores(folder / "cpulist") for folder in _numbered(root / "node", "node")}
    return Topology(
        siblings=tuple(sorted(groups)),
        nodes=tuple((number, members) for number, members in sorted(nodes.items()) if members),
    )


def parse_cores(text: str) -> tuple[int, ...]:
    """``"0-3,8"`` -> ``(0, 1, 2, 3, 8)``, ascending, each once. Raises ValueError for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, flags=re.ASCII)
        if match is None:
            raise ValueError(f"{part.strip()!r} is neither a core id nor a range of core ids")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part.strip()!r} ends before it begins")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def core_ranges(cores: Iterable[int]) -> str:
    """``0-3, 8``; a dash where there are none."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "-"


def _numbered(folder: Path, name: str) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if re.fullmatch(rf"{name}[0-9]+", entry.name)]
    except OSError:
        return []


def _cores(file: Path) -> tuple[int, ...]:
    try:
        return parse_cores(file.read_text())
    except (OSError, ValueError):
        return ()
