"""The limits that a server sets for a collection (strict mode, server 1.13 and later), and permitted sizes of requests.

A rate limit is a budget for a minute, which refills steadily. The server always refuses a request that costs more than
the whole budget. It refuses any other request until the budget has refilled to the cost of the request. Batches are
therefore so small that their cost refills within ``wait_seconds``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_MINUTE = 60.0
_SIZES = (
    "max_points_count",
    "max_collection_vector_size_bytes",
    "max_collection_payload_size_bytes",
    "max_resident_memory_percent",
)
_ROUNDING = 1.0  # the server rounds the pause that it names up to whole seconds


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the server; None for no limit.

    Attributes:
        results: Most results of one search or page (``max_query_limit``).
        batch: Most points of one write (``upsert_max_batchsize``).
        searches: Most searches of one request (``search_max_batchsize``).
        conditions: Most conditions of one filter (``filter_max_conditions``).
        values: Most values of one condition (``condition_max_size``).
        exact: Whether exact searches and counts are permitted (``search_allow_exact``).
        ef: Most candidates that a search keeps (``search_max_hnsw_ef``).
        oversampling: Largest factor of candidates that are scored again (``search_max_oversampling``).
        reads: Highest cost of all reads in a minute (``read_rate_limit``).
        writes: Highest cost of all writes in a minute (``write_rate_limit``).
        timeout: Most seconds that a request may name as its timeout (``max_timeout``).
        wait_seconds: Longest time that one request may wait for its share of a budget.
        bounded: Whether the size of the collection is limited (``max_points_count`` and others).
    """

    results: int | None = None
    batch: int | None = None
    searches: int | None = None
    conditions: int | None = None
    values: int | None = None
    exact: bool = True
    ef: int | None = None
    oversampling: float | None = None
    reads: int | None = None
    writes: int | None = None
    timeout: int | None = None
    wait_seconds: float = 0.0
    bounded: bool = False

    def page(self, size: int) -> int:
        """Return how many results one request may have: ``size`` or fewer."""
        return _least(size, self.results)

    def written(self, size: int) -> int:
        """Return how many points one write may have: ``size`` or fewer."""
        return _least(size, self.batch, self._share(self.writes))

    def removed(self, size: int) -> int:
        """Return how many points one deletion may name: ``size`` or fewer."""
        return _least(size, self._share(self.writes))

    def named(self, size: int) -> int:
        """Return how many values each of two lists in a filter may have: ``size`` or fewer."""
        if self.values is None:
            return size
        return _least(size, None if self.conditions is None else self.values * max(1, self.conditions // 2))

    def read(self, size: int) -> int:
        """Return how many points one request may read by id: ``size`` or fewer."""
        return _least(size, self._share(self.reads))

    def permits_ids(self, count: int) -> bool:
        """Return whether one search may name this many ids and find this many points."""
        return all(most is None or count <= most for most in (self.results, self.values))

    @property
    def budget(self) -> int | None:
        """The highest cost that the searches of one request may have together."""
        return self._share(self.reads)

    def refill(self, writes: int = 0, reads: int = 0) -> float:
        """Return the seconds in which the server's budgets refill by this cost of writes or reads."""
        costs = ((writes, self.writes), (reads, self.reads))
        return max((cost * _MINUTE / limit for cost, limit in costs if limit is not None), default=0.0)

    def _share(self, limit: int | None) -> int | None:
        if limit is None:
            return None
        return max(1, min(limit, int(limit * (self.wait_seconds - _ROUNDING) / _MINUTE)))


def limits_of(config: Any, wait_seconds: float) -> Limits:
    """Return the limits in a collection's ``strict_mode_config``, as the client gives it."""
    if config is None or not config.enabled:
        return Limits(wait_seconds=wait_seconds)
    return Limits(
        results=config.max_query_limit,
        batch=config.upsert_max_batchsize,
        searches=config.search_max_batchsize,
        conditions=config.filter_max_conditions,
        values=config.condition_max_size,
        exact=config.search_allow_exact is not False,
        ef=config.search_max_hnsw_ef,
        oversampling=config.search_max_oversampling,
        reads=config.read_rate_limit,
        writes=config.write_rate_limit,
        timeout=config.max_timeout,
        wait_seconds=wait_seconds,
        bounded=any(getattr(config, name, None) is not None for name in _SIZES),
    )


def _least(*sizes: int | None) -> int:
    return max(1, min(size for size in sizes if size is not None))
