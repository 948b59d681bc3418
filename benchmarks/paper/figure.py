"""Figures: a number, where it is from, and whether anybody has published it."""

from __future__ import annotations

import attrs


@attrs.define(frozen=True)
class Figure:
    """One number that a calibration rests on."""

    value: float
    unit: str
    kind: str
    """``published``, ``derived`` (from published figures) or ``assumed``."""
    source: str
    """Who published it, how it is derived, or why it is plausible."""

    @property
    def amount(self) -> str:
        return f"{self.value:.4g} {self.unit}".strip()

    @property
    def line(self) -> str:
        return f"{self.kind}: {self.amount}; {self.source}"


def published(value: float, unit: str, source: str) -> Figure:
    return Figure(value, unit, "published", source)


def derived(value: float, unit: str, source: str) -> Figure:
    return Figure(value, unit, "derived", source)


def assumed(value: float, unit: str, source: str) -> Figure:
    return Figure(value, unit, "assumed", source)
