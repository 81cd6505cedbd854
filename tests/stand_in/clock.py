"""A clock for the stand-in and for what waits for it, so that budgets of a minute are tested in no time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tenacity


class Clock:
    """A clock that only pauses move; ``pauses`` has their lengths."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    @classmethod
    def for_requests(cls, patch: pytest.MonkeyPatch) -> Clock:
        """Return a clock that measures requests to servers and ends their pauses at once."""
        clock = cls()
        patch.setattr(tenacity, "time", SimpleNamespace(monotonic=clock))
        patch.setattr(tenacity.nap, "time", SimpleNamespace(sleep=clock.sleep))
        patch.setattr("twinvec_qdrant.stores.server.retrying.time", SimpleNamespace(monotonic=clock))
        return clock
