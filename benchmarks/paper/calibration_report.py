"""The README beside the calibrated profiles: what each rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from figure import Figure

_HEAD = """# Profiles of the paper's configurations

Written by `benchmarks/paper/calibration.py`; change the constants beside it, not these files. Nobody measured them:
they are calibrated from published figures, so that plans and rehearsals can be made for machines that are not here. Of
the paper (arXiv 2609.27547) its abstract and the figures noted in this project were known, not its full text. Every
figure says what it is:

- **published**: somebody else reports it.
- **derived**: follows from published or measured figures, as its source says.
- **assumed**: nobody reports it; the source says why it is plausible by itself.

The paper's results were known when the assumptions were made, but no rehearsal had been compared with them. After the
first comparison one was replaced by a published figure: episodes fill their horizon and all environments are reset
together, as RLinf's configurations say; before, they were assumed to end at 0.6 of it. This favours the baselines,
whom a reset in the middle of a horizon holds up behind a barrier. Parameter and token counts behind the compute, and
peak rates of devices, are from general knowledge of the models and data sheets and were not looked up again.

Not modelled: stages on one device slow each other by no more than the SMs they take (no contention for memory
bandwidth), and a simulator's environments on one device take turns.
"""


def readme(tables: Mapping[str, Mapping[str, Figure]]) -> str:
    """tables: profile -> quantity -> figure. Those that all have alike stand once."""
    first = next(iter(tables.values()))
    common = {
        quantity: figure
        for quantity, figure in first.items()
        if all(rows.get(quantity) == figure for rows in tables.values())
    }
    parts = [_HEAD, *_table("All of them", common)]
    for name, rows in tables.items():
        parts += _table(f"{name}.json", {key: figure for key, figure in rows.items() if key not in common})
    return "\n".join(parts)


def _table(title: str, rows: Mapping[str, Figure]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| quantity | value | kind | source |\n|---|---|---|---|"
    yield from (
        f"| {quantity} | {figure.amount} | {figure.kind} | {figure.source} |" for quantity, figure in rows.items()
    )
    yield ""
