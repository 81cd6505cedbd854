"""Metrics of one server, in the format of Prometheus."""

from __future__ import annotations

import platform
import shutil
import time
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest

from twinvec.version import __version__

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_TOKENS = (16, 64, 256, 1024, 4096, 16_384, 65_536)


class Metrics:
    """The metrics of one server; each server has a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time, open files, time of the start
        self._build = Info(
            "twinvec_build",
            "Versions of twinvec and of Python, and the engine of the default model.",
            registry=self.registry,
        )
        self._backups = Gauge(
            "twinvec_last_backup_timestamp_seconds",
            "Time, since 1970, of the last backup of a collection that was sent as a whole, since the server's start.",
            ["collection"],
            registry=self.registry,
        )
        self._requests = Counter("twinvec_requests", "Requests answered.", ["route", "status"], registry=self.registry)
        self._seconds = Histogram(
            "twinvec_request_seconds",
            "Time from a request's first byte to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._batch_texts = Histogram(
            "twinvec_batch_texts",
            "Texts that one call of an engine has computed.",
            buckets=_TEXTS,
            registry=self.registry,
        )
        self._batch_tokens = Histogram(
            "twinvec_batch_tokens",
            "Tokens that one call of an engine has computed.",
            buckets=_TOKENS,
            registry=self.registry,
        )
        self._queue = Gauge(
            "twinvec_queue_requests",
            "Embeddings and rerankings that wait or are being computed.",
            registry=self.registry,
        )
        self._searches = Gauge(
            "twinvec_queue_searches", "Searches of collections that wait or are being computed.", registry=self.registry
        )
        self._tokens = Counter(
            "twinvec_tokens",
            "Tokens of the texts that requests embed or rerank, and of the queries of searches.",
            ["model"],
            registry=self.registry,
        )

    def build(self, engine: str) -> None:
        """Note the engine of the default model, as in ``Engine.name``."""
        self._build.info({"version": __version__, "python": platform.python_version(), "engine": engine})

    def store(self, folder: Path) -> None:
        """Show the free room of the disk with the store in this folder."""
        free = Gauge("twinvec_store_free_bytes", "Free room of the disk with the store.", registry=self.registry)
        free.set_function(lambda: _free_bytes(folder))

    def backed_up(self, collection: str) -> None:
        """Note that a backup of a collection was sent as a whole."""
        self._backups.labels(collection).set(time.time())

    def dropped(self, collection: str) -> None:
        """Forget a collection."""
        with suppress(KeyError):
            self._backups.remove(collection)

    def requests(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request by the pattern of its route, because its path may contain words of a client."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, texts: int, tokens: int) -> None:
        """Count a batch that an engine has computed, by its texts and tokens."""
        self._batch_texts.observe(texts)
        self._batch_tokens.observe(tokens)

    def queue(self, depth: int) -> None:
        """Set how many requests to embed or rerank texts wait or are being computed."""
        self._queue.set(depth)

    def searches(self, depth: int) -> None:
        """Set how many searches of collections wait or are being computed."""
        self._searches.set(depth)

    def tokens(self, model: str, number: int) -> None:
        """Count the tokens of the texts to embed or rerank, or of a search's query, by the model's name."""
        self._tokens.labels(model).inc(number)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def _free_bytes(folder: Path) -> float:
    try:
        return float(shutil.disk_usage(folder).free)
    except OSError:
        return float("nan")
