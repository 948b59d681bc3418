"""Rehearsals as a picture: what cores and devices do under each schedule, one below the other. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ebrl.observe.chrome_trace import tracks
from ebrl.rehearse.trace import Trace
from ebrl.rehearse.usage import CORES, GENERATION, SIMULATION, TRAINING

_COLOURS = {
    "step": "#4c78a8",
    "reset": "#9ecae9",
    "device part": "#72b7b2",
    "batch": "#f58518",
    "iteration": "#54a24b",
    "transfer": "#b279a2",
}
_NAMES = {
    "step": "chunk",
    "batch": "generation batch",
    "iteration": "training iteration",
    "device part": "simulation on a device",
    "transfer": "transfer of weights or devices",
}
_LABELS = {CORES: "cores", SIMULATION: "sim. on\ndevices", GENERATION: "generation", TRAINING: "training"}
_SHARE = {CORES: 3.0, TRAINING: 0.6}
"""How high all tracks of a resource are together; cores are many and would hide the rest."""
_INCHES = 1.8  # of a schedule


def gantt(traces: Sequence[tuple[str, Trace]]) -> bytes:
    """A PNG. traces: by headline, from top to bottom; all on one scale of time, so that the faster one ends sooner."""
    figure = Figure(figsize=(12.0, 0.9 + _INCHES * len(traces)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(traces), 1, squeeze=False, sharex=True)[:, 0]
    works: dict[str, None] = {}
    for axes, (title, trace) in zip(panels, traces, strict=True):
        works |= dict.fromkeys(_panel(axes, title, trace))
    panels[-1].set_xlim(0, max(trace.ended_s - trace.began_s for _, trace in traces))
    panels[-1].set_xlabel("seconds of virtual time")
    handles = [Patch(color=colour, label=_NAMES.get(work, work)) for work, colour in _COLOURS.items() if work in works]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8, frameon=False)
    buffer = BytesIO()
    figure.savefig(buffer, dpi=150, format="png")
    return buffer.getvalue()


def _panel(axes: Axes, title: str, trace: Trace) -> list[str]:
    """The kinds of work that it shows."""
    rows: dict[str, list[dict[str, list[tuple[float, float]]]]] = {}
    for (resource, _), spans in tracks(trace.spans).items():
        bars: dict[str, list[tuple[float, float]]] = {}
        for span in spans:
            began_s = max(span.began_s, trace.began_s)
            bars.setdefault(span.work, []).append((began_s - trace.began_s, span.ended_s - began_s))
        rows.setdefault(resource, []).append(bars)
    top, marks = 0.0, dict[str, float]()
    for resource, places in rows.items():
        height = _SHARE.get(resource, 1.0) / len(places)
        marks[_LABELS.get(resource, resource)] = top - height * len(places) / 2
        for bars in places:
            top -= height
            for work, spans_s in bars.items():
                axes.broken_barh(spans_s, (top, height), color=_COLOURS[work], linewidth=0, rasterized=True)
        top -= 0.25
    axes.axvline(trace.ended_s - trace.began_s, color="black", linewidth=0.8)
    axes.set_ylim(top, 0.2)
    axes.set_yticks(list(marks.values()), labels=list(marks), fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, loc="left", fontsize=10)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return [work for places in rows.values() for bars in places for work in bars]
