"""A rehearsal as Chrome trace events, the JSON that ui.perfetto.dev and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ebrl.rehearse.trace import RESOURCES, TRANSFERS, Span, Trace

_NUMBERS = {"step": "environment", "reset": "environment", "batch": "requests", "iteration": "version"}
"""What the number of a span is, by its work."""


def chrome_trace(trace: Trace, title: str) -> dict[str, Any]:
    """title: stands in the names of all groups of tracks. Times are microseconds since the trace began."""
    return {"displayTimeUnit": "ms", "traceEvents": list(_events(trace, title))}


def tracks(spans: Sequence[Span]) -> dict[tuple[str, str], list[Span]]:
    """(resource, place) -> what happens there, one after the other: resources as in `RESOURCES`, places by number.
    Transfers that overlap are on tracks of their own."""
    found: dict[tuple[str, str], list[Span]] = {}
    for span in sorted(spans, key=lambda span: (RESOURCES.index(span.resource), _rank(span.place), span.began_s)):
        place = span.place
        if span.resource == TRANSFERS:
            lane = 0
            while (track := found.get((TRANSFERS, f"{place} {lane}"))) and track[-1].ended_s > span.began_s:
                lane += 1
            place = f"{place} {lane}"
        found.setdefault((span.resource, place), []).append(span)
    return found


def _rank(place: str) -> tuple[str, int]:
    """GPU-2 before GPU-10."""
    name = place.rstrip("0123456789")
    return name, int(place[len(name) :] or 0)


def _events(trace: Trace, title: str) -> Iterator[dict[str, Any]]:
    for resource in {span.resource: None for span in trace.spans}:
        number = RESOURCES.index(resource)
        yield _named("process_name", number, 0, name=f"{title}: {resource}")
        yield _named("process_sort_index", number, 0, sort_index=number)
    for thread, ((resource, place), spans) in enumerate(tracks(trace.spans).items(), start=1):
        process = RESOURCES.index(resource)
        yield _named("thread_name", process, thread, name=f"core {place}" if place.isdigit() else place)
        yield _named("thread_sort_index", process, thread, sort_index=thread)
        for span in spans:
            began_us = _microseconds(max(span.began_s, trace.began_s) - trace.began_s)
            ended_us = _microseconds(span.ended_s - trace.began_s)
            event = {
                "name": span.work,
                "ph": "X",
                "ts": began_us,
                "dur": round(ended_us - began_us, 3),
                "pid": process,
                "tid": thread,
            }
            if span.work in _NUMBERS:
                event["args"] = {_NUMBERS[span.work]: span.number}
            yield event


def _microseconds(seconds: float) -> float:
    """Beginnings and ends are rounded alike, as a track on which things overlap is not shown."""
    return round(1e6 * seconds, 3)


def _named(kind: str, process: int, thread: int, **args: Any) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": args}
