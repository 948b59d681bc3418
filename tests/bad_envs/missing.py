"""Imports its simulator at once."""

from __future__ import annotations

from no_such_simulator import Missing  # noqa: F401
