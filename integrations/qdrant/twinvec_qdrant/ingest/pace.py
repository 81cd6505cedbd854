"""The pace of an ingest: how many texts the encoder gets at once, so that a killed ingest loses little work.

Texts are encoded and written in portions. Encoding a portion takes between half of ``PORTION_SECONDS`` and all of it,
as estimated from the last call. The portion is written while the next one is encoded. A killed ingest loses at most two
portions: no more than five seconds even if the encoder slows down by a quarter from one call to the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

PORTION_SECONDS = 2.0
"""Longest time of encoding texts before their vectors are written, as estimated."""

_GROWTH = 2  # a call gets at most this many times the texts of the call before
_OVERHEAD = 64  # what a text costs besides its length, in characters
_CHARACTERS_PER_TOKEN = 4
_LONGEST = 4096  # characters; assumed limit of an encoder that states none

clock = time.monotonic


class Pace:
    """Measures the calls of an encoder, and decides how many texts the next call gets; the first call gets one text.

    The weight of a text is its number of characters, up to the limit of the encoder.
    """

    def __init__(self, encoder: object) -> None:
        limit = getattr(encoder, "max_tokens", None)
        self._longest = limit * _CHARACTERS_PER_TOKEN if isinstance(limit, int) else _LONGEST
        self._most = 1
        self._speed = 0.0  # weight per second of the last call; 0 before the first call
        self._began = 0.0

    def begin(self) -> None:
        """Begin a portion."""
        self._began = clock()

    def ended(self) -> bool:
        """Return whether the portion is large enough."""
        return clock() - self._began >= PORTION_SECONDS / 2

    def next(self, texts: Iterable[str]) -> list[str]:
        """Return the leading texts that fit into the current portion: at least one."""
        taken: list[str] = []
        room = self._speed * (PORTION_SECONDS - (clock() - self._began))
        for text in texts:
            room -= self.weight(text)
            if taken and (room < 0 or len(taken) == self._most):
                break
            taken.append(text)
        return taken

    def took(self, texts: Iterable[str], seconds: float) -> None:
        """Adapt the pace to the time that a call of the encoder took."""
        weights = [self.weight(text) for text in texts]
        self._most = max(self._most, _GROWTH * len(weights))
        self._speed = sum(weights) / max(seconds, 1e-6)

    def weight(self, text: str) -> int:
        """Return the estimated work of encoding a text, in characters."""
        return min(len(text), self._longest) + _OVERHEAD
