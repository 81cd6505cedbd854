"""The bounded queue of a server's models: its length, and the pause after which a refused client may try again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twinvec_serve.errors import Overloaded
from twinvec_serve.observing.metrics import Metrics

_FRESH = 0.2
"""Weight of the last batch in the moving average of the speed."""


class WaitingRoom:
    """Counts the requests that wait for a model or are being computed. All models share the cores, and have one queue.

    A request with more than ``most_texts`` texts is accepted if no other request waits or is being computed.
    """

    def __init__(self, most_requests: int, most_texts: int, metrics: Metrics) -> None:
        self._most_requests = most_requests
        self._most_texts = most_texts
        self._metrics = metrics
        self._requests = 0
        self._texts = 0
        self._seconds_per_text = 0.0

    @contextmanager
    def place(self, texts: int) -> Iterator[None]:
        """Count a request with this number of texts as waiting; raise Overloaded if the queue is full."""
        crowded = self._requests and self._texts + texts > self._most_texts
        if crowded or self._requests >= self._most_requests:
            raise Overloaded(max(self._texts * self._seconds_per_text, 1.0))
        self._change(1, texts)
        try:
            yield
        finally:
            self._change(-1, -texts)

    def note_speed(self, texts: int, seconds: float) -> None:
        """Note how long a batch took, from any thread."""
        if texts:
            before = self._seconds_per_text or seconds / texts
            self._seconds_per_text = (1 - _FRESH) * before + _FRESH * seconds / texts

    def _change(self, requests: int, texts: int) -> None:
        self._requests += requests
        self._texts += texts
        self._metrics.queue(self._requests)
