"""Rules on numbers that the engine reads: counts of at least one, and the staleness bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebrl.errors import Finding
from ebrl.graph.draft import Draft, engine_options
from ebrl.graph.model import PolicyRef


def option_value(draft: Draft) -> Iterator[Finding]:
    """Engine options are whole numbers of at least 1."""
    for node in draft.graph.nodes.values():
        for name, value in node.options.items():
            default = engine_options(node.stage)[name]
            if _whole(value, 1) or (value is None and default is None):
                continue
            yield Finding(
                rule="option-value",
                where=f"{node.name}.{name}",
                message=f"must be a whole number of at least 1, got {value!r}",
                place=node.place,
                hint=f"left out, it is {default}" if default is not None else "left out, the engine chooses it",
            )


def chunk_size(draft: Draft) -> Iterator[Finding]:
    """The option `chunk` of a policy, actions planned at once, is a whole number of at least 1."""
    seen: set[int] = set()
    for node in draft.graph.nodes.values():
        found = node.reference(PolicyRef)
        if found is None or id(found[1]) in seen or _whole(found[1].options.get("chunk", 1), 1):
            continue
        parameter, policy = found
        seen.add(id(policy))
        yield Finding(
            rule="chunk-size",
            where=f"{node.name}.{parameter}",
            message=f"chunk must be a whole number of at least 1, got {policy.options['chunk']!r}",
            place=draft.reference_places.get(id(policy), node.place),
            hint="chunk is how many actions the policy plans at once; left out, it is 1",
        )


def max_staleness(draft: Draft) -> Iterator[Finding]:
    """The staleness bound is a whole number of at least 0."""
    for edge in draft.declared:
        if not _whole(edge.max_staleness, 0):
            yield Finding(
                rule="max-staleness",
                where=edge.name,
                message=f"max_staleness must be a whole number of at least 0, got {edge.max_staleness!r}",
                place=edge.place,
                hint="0 keeps generation and training in step, 1 lets them overlap",
            )


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
