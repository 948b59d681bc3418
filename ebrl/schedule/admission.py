"""Admission: how much rollout may be in flight, so that no chunk is staler than allowed when it trains."""

from __future__ import annotations

import attrs


@attrs.define(kw_only=True)
class Admission:
    """Grants trajectory batches. A batch that is granted is one submitted task: the admission credit.

    Training iteration k turns weights version k into k + 1 and consumes batch k. A chunk generated
    under version v and trained at version k has staleness k - v, so batch k may start once version
    k - max_staleness exists. In trajectories, the capacity left at some version is

        (max_staleness + version + 1) * batch - accepted - running

    as in AReaL's staleness control (Fu et al., 2025, arXiv 2505.24298).
    """

    max_staleness: int
    iterations: int
    """Training iterations of the whole run; no batch beyond them is granted."""
    granted: int = 0
    """Batches granted so far, those before a resume included."""

    def grant(self, version: int) -> range:
        """Indices of the batches that may start now that weights of `version` exist."""
        limit = min(self.iterations, version + self.max_staleness + 1)
        new = range(self.granted, max(self.granted, limit))
        self.granted = new.stop
        return new

    def min_version(self, batch: int) -> int:
        """The oldest weights that may generate chunks of `batch`."""
        return max(0, batch - self.max_staleness)
