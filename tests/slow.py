"""An encoder that is slow by a clock of its own, for tests of what a kill costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from twinvec_qdrant.ingest import pace
from words import WordEncoder


class SlowEncoder(WordEncoder):
    """Takes its time for every text by a clock that stands still otherwise: the ingest's, while ``on_this_clock``.

    Args:
        seconds: How long a text takes; the first few are the probes of an opened collection.
        **options: Those of ``WordEncoder``.
    """

    def __init__(self, seconds: Callable[[str], float], **options: Any) -> None:
        super().__init__(**options)
        self.now = 0.0
        self._seconds = seconds

    def on_this_clock(self, monkeypatch: Any) -> None:
        """Let ingests measure by this clock."""
        monkeypatch.setattr(pace, "clock", lambda: self.now)

    def encode_document(self, texts):
        self.now += sum(map(self._seconds, texts))
        return super().encode_document(texts)

    def repeated(self) -> float:
        """Return how long the texts took that were encoded before."""
        counts = Counter(self.encoded)
        return sum((count - 1) * self._seconds(text) for text, count in counts.items())
