"""What is said between a simulation worker and its environment processes. Standard library only.

The order of what to create waits in a file that the child inherits. Commands travel on the child's standard
input, replies on a pipe of its own; both are fixed headers, replies may carry a JSON text. Arrays travel
through the slots.
"""

from __future__ import annotations

import struct

COMMAND = struct.Struct("<Bq")  # operation, value
ATTACH, RESET, STEP, CLOSE = range(1, 5)
"""ATTACH: value bytes of JSON follow. RESET: value is the seed. STEP: value is how many actions of
the chunk to execute, negative for the first command of a new chunk."""

REPLY = struct.Struct("<BBBbIdI")  # kind, terminated, truncated, success, steps, elapsed_s, length of the text
READY, DONE, FAILED = range(1, 4)
"""READY: text is the simulator's spec. DONE: a reset or steps. FAILED: text describes the exception."""
