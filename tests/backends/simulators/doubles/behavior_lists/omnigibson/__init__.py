"""Double of OmniGibson up to 2025: a VectorEnvironment that answers with lists."""

from __future__ import annotations

import signal

from omnigibson import macros
from omnigibson.envs import Environment

__all__ = ["Environment", "macros"]

signal.signal(signal.SIGINT, lambda *_: None)
