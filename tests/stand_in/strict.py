"""Strict mode of the stand-in: the limits of a collection, checked as the server checks them.

The checks and their sentences are those of Qdrant's source (1.18, August 2026), file by file:

    lib/collection/src/operations/verification/mod.rs      results of a request, exact search, conditions of a filter
                                                           and values of a condition, indexes that filters need,
                                                           ``hnsw_ef``, oversampling, timeout, searches of a batch
    .../verification/query.rs, count.rs, local_shard.rs    what counts for queries (prefetches too; no search by vector
                                                           without a graph if exact search is forbidden), counts (an
                                                           exact one is an exact search), scrolls; reading by id has no
                                                           limit of results
    .../verification/update.rs                             points of an upsert and of ``update_vectors``, points and
                                                           bytes of a collection; the filter of a conditional upsert
                                                           needs no index
    lib/collection/src/problems/unindexed_field.rs         which types of index serve which condition
    src/common/update.rs                                   number of payload indexes, checked even for one that exists
    lib/common/common/src/rate_limiting.rs                 the budget of a minute that fills up steadily
    lib/collection/src/shards/local_shard/shard_ops.rs     what reads cost: scroll and count 1 and the conditions of the
                                                           filter, a search the vectors it compares with (a sparse
                                                           vector 1 for 64 terms) and the conditions, points by id 1
                                                           each
    lib/collection/src/shards/replica_set/update.rs        what writes cost: the points, at least 1; a batch of
                                                           operations is paid one by one, so that a refusal leaves the
                                                           operations before it done; the first operation is paid
                                                           twice, because it is rejected and done again
    .../replica_set/clock_set.rs                           why: the first tick of a clock is 0, and no operation of this
                                                           tick is accepted

Two checks are stricter here: sizes of a collection are exact at every write, where the server counts anew at every
32nd, and reading by id is refused beyond the budget like everything else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from qdrant_client import models

_TOO_LARGE = "request larger than rate limiter capacity, please try to split your request"
_TERMS = 64


STRICT = models.StrictModeConfig(
    enabled=True,
    unindexed_filtering_retrieve=False,
    unindexed_filtering_update=False,
    max_payload_index_count=8,
    max_query_limit=10,
    max_timeout=30,
    search_max_hnsw_ef=64,
    search_allow_exact=False,
    search_max_oversampling=1.5,
    upsert_max_batchsize=7,
    search_max_batchsize=3,
    read_rate_limit=60,
    write_rate_limit=40,
    filter_max_conditions=8,
    condition_max_size=5,
    max_points_count=10_000,
    max_collection_vector_size_bytes=10**9,
)
"""Every limit that there is, and small."""


class RefusedError(Exception):
    """A request that strict mode refuses; ``retry_after`` in whole seconds, or None."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after = retry_after


class Budget:
    """A minute's operations, which come back steadily."""

    def __init__(self, kind: str, most: int, clock: Callable[[], float]) -> None:
        self._kind, self._most, self._clock = kind, most, clock
        self._left, self._then = float(most), clock()

    def pay(self, cost: int) -> None:
        """Take what an operation costs, or refuse it."""
        said = f"Rate limiting exceeded: {self._kind} rate limit exceeded"
        if cost > self._most:
            raise RefusedError(429, f"{said}, {_TOO_LARGE}")
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._then) * self._most / 60)
        self._then = now
        if self._left < cost:
            pause = math.ceil((cost - self._left) / self._most * 60)
            tokens = f"Operation requires {cost} tokens but only {self._left:.1f} were available"
            raise RefusedError(429, f"{said}: {tokens}. Retry after {pause}s", pause)
        self._left -= cost


class StrictMode:
    """The limits of one collection; ``indexes`` are its payload indexes by field, as the collection keeps them.

    Attributes:
        config: The limits.
        is_written: Whether the collection has had a write.
    """

    def __init__(
        self,
        config: models.StrictModeConfig | None,
        indexes: dict[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config if config is not None else models.StrictModeConfig()
        self._on = bool(self.config.enabled)
        self._indexes = indexes
        self.is_written = False
        reads, writes = self.config.read_rate_limit, self.config.write_rate_limit
        self._reads = Budget("Read", reads, clock) if self._on and reads else None
        self._writes = Budget("Write", writes, clock) if self._on and writes else None

    def read(self, cost: int) -> None:
        """Pay for a read."""
        if self._reads is not None:
            self._reads.pay(cost)

    def write(self, cost: int) -> None:
        """Pay for a write; for the first one, pay twice."""
        if self._writes is not None and not self.is_written:
            self._writes.pay(max(1, cost))
        self.is_written = True
        if self._writes is not None:
            self._writes.pay(max(1, cost))

    def check_scroll(self, request: models.ScrollRequest) -> None:
        """Check and pay for a page."""
        self._at_most(request.limit, self.config.max_query_limit, "limit")
        self._filter(request.filter, writing=False)
        self.read(1 + conditions_of(request.filter))

    def check_count(self, request: models.CountRequest) -> None:
        """Check and pay for a count."""
        self._filter(request.filter, writing=False)
        self._exact(request.exact is not False)
        self.read(1 + conditions_of(request.filter))

    def check_searches(self, searches: list[models.QueryRequest], unindexed: set[str]) -> None:
        """Check and pay for a batch of searches; ``unindexed`` are the dense vectors without a graph."""
        self._at_most(len(searches), self.config.search_max_batchsize, "search batch size")
        for each in searches:
            self._search(each, unindexed)
        self.read(sum(map(_search_cost, searches)))

    def check_points(self, points: int, stored: models.CollectionInfo, bytes_stored: int, what: str) -> None:
        """Check points to write; ``what`` is "upsert limit" or "update limit"."""
        self._at_most(points, self.config.upsert_max_batchsize, what)
        most = self.config.max_collection_vector_size_bytes
        if self._on and most is not None and bytes_stored >= most:
            raise RefusedError(400, f"Bad request: Max vector storage size limit of {most / 2**20}MB reached!")
        most = self.config.max_points_count
        if self._on and most is not None and (stored.points_count or 0) >= most:
            raise RefusedError(400, f"Bad request: Max points count limit of {most} reached!")

    def check_selection(self, selector: Any) -> None:
        """Check which points are to be removed."""
        self._filter(getattr(selector, "filter", None), writing=True)

    def check_index(self) -> None:
        """Check that there is room for one more payload index."""
        most = self.config.max_payload_index_count
        if self._on and most is not None and len(self._indexes) >= most:
            self._refuse(
                f"Collection already has the maximum number of payload indices ({most})",
                "Please delete an existing index before creating a new one.",
            )

    def _search(self, request: models.QueryRequest | models.Prefetch, unindexed: set[str]) -> None:
        prefetches = request.prefetch or []
        for each in prefetches if isinstance(prefetches, list) else [prefetches]:
            self._search(each, unindexed)
        name = request.using or ""
        searched = request.query is not None and not (isinstance(request, models.QueryRequest) and prefetches)
        if self._on and self.config.search_allow_exact is False and searched and name in unindexed:
            self._refuse(
                f"Request is forbidden on '{name}' because global vector indexing is disabled (hnsw_config.m = 0)",
                "Use tenant-specific filter, enable global vector indexing or enable strict mode `search_allow_exact` "
                "option",
            )
        self._at_most(request.limit if request.limit is not None else 10, self.config.max_query_limit, "limit")
        self._filter(request.filter, writing=False)
        params = request.params
        if params is not None:
            self._exact(bool(params.exact))
            copies = params.quantization
            self._at_most(copies and copies.oversampling, self.config.search_max_oversampling, "oversampling")
            self._at_most(params.hnsw_ef, self.config.search_max_hnsw_ef, "hnsw_ef")

    def _filter(self, filter: models.Filter | None, *, writing: bool) -> None:
        if not self._on or filter is None:
            return
        config = self.config
        allowed = config.unindexed_filtering_update if writing else config.unindexed_filtering_retrieve
        if allowed is False:
            for key, types in needed(filter):
                if not set(types) & self._served(key):
                    named = ", ".join(sorted(dict.fromkeys(_NAMES[each] for each in types)))
                    self._refuse(
                        f'Index required but not found for "{key}" of one of the following types: [{named}]',
                        "Create an index for this key or use a different filter.",
                    )
        found = conditions_of(filter)
        if config.filter_max_conditions is not None and found > config.filter_max_conditions:
            self._refuse(
                f"Filter condition limit reached ({found} > {config.filter_max_conditions})",
                "Reduce the amount of conditions of your filter.",
            )
        size = largest(filter)
        if config.condition_max_size is not None and size > config.condition_max_size:
            self._refuse(
                f"Condition size limit reached ({size} > {config.condition_max_size})",
                "Reduce the size of your condition.",
            )

    def _served(self, key: str) -> set[str]:
        """The kinds of condition that the index of this key serves."""
        if key not in self._indexes:
            return set()
        schema = self._indexes[key]
        kind = kind_of(schema)
        served = set(_SERVED[kind])
        if kind == "integer" and getattr(schema, "lookup", None) is False:
            served.discard("int match")
        if kind == "integer" and getattr(schema, "range", None) is False:
            served.discard("int range")
        if getattr(schema, "phrase_matching", None):
            served.add("phrase")
        return served

    def _exact(self, wanted: bool) -> None:
        if self._on and wanted and self.config.search_allow_exact is False:
            self._refuse("Exact search disabled!", "Set exact=false.")

    def _at_most(self, value: Any, most: Any, name: str) -> None:
        if self._on and value is not None and most is not None and value > most:
            self._refuse(
                f'Limit exceeded {value} > {most} for "{name}"', f'Reduce the "{name}" parameter to or below {most}.'
            )

    def _refuse(self, sentence: str, remedy: str) -> None:
        raise RefusedError(400, f"Bad request: {sentence}. Help: {remedy}")


_SERVED = {
    "keyword": ["keyword"],
    "integer": ["int match", "int range"],
    "uuid": ["uuid", "uuid range"],
    "bool": ["bool"],
    "float": ["float range"],
    "geo": ["geo"],
    "text": ["text"],
    "datetime": ["datetime"],
}
_NAMES = {each: kind for kind, served in _SERVED.items() for each in served} | {"phrase": "text"}
_ANY = tuple(_NAMES)


def kind_of(schema: Any) -> str:
    """The type of a payload index, whose parameters or whose name is given."""
    kind = getattr(schema, "type", schema)
    return str(kind.value if isinstance(kind, Enum) else kind)


def needed(filter: models.Filter, prefix: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """The keys that a filter tests, each with the kinds of index of which one must be there."""
    for each in _conditions(filter):
        if isinstance(each, models.Filter):
            yield from needed(each, prefix)
        elif isinstance(each, models.NestedCondition):
            yield from needed(each.nested.filter, f"{prefix}{each.nested.key.removesuffix('[]')}[].")
        elif isinstance(each, models.IsEmptyCondition):
            yield prefix + each.is_empty.key, _ANY
        elif isinstance(each, models.IsNullCondition):
            yield prefix + each.is_null.key, _ANY
        elif isinstance(each, models.FieldCondition) and (types := _types(each)):
            yield prefix + each.key, types


def _types(condition: models.FieldCondition) -> tuple[str, ...]:
    match = condition.match
    if isinstance(match, models.MatchText | models.MatchTextAny):
        return ("text",)
    if isinstance(match, models.MatchPhrase):
        return ("phrase",)
    if match is not None:
        values = match.any if isinstance(match, models.MatchAny) else getattr(match, "except_", None)
        values = [match.value] if isinstance(match, models.MatchValue) else values
        return _value_types(list(values or []))
    if isinstance(condition.range, models.DatetimeRange):
        return ("datetime",)
    if condition.range is not None:
        return ("float range", "int range")
    if condition.geo_bounding_box or condition.geo_radius or condition.geo_polygon:
        return ("geo",)
    return _ANY


def _value_types(values: list[Any]) -> tuple[str, ...]:
    if not values:
        return ()
    if isinstance(values[0], bool):
        return ("bool",)
    return ("int match",) if isinstance(values[0], int) else ("keyword",)


def _conditions(filter: models.Filter) -> Iterator[Any]:
    few = filter.min_should.conditions if filter.min_should else []
    for some in (filter.must, filter.must_not, filter.should, few):
        yield from some if isinstance(some, list) else [some] if some is not None else []


def conditions_of(filter: models.Filter | None) -> int:
    """The conditions of a filter and of all filters in it."""
    if filter is None:
        return 0
    inner = (each.nested.filter if isinstance(each, models.NestedCondition) else each for each in _conditions(filter))
    return sum(conditions_of(each) if isinstance(each, models.Filter) else 1 for each in inner)


def largest(filter: models.Filter) -> int:
    """The most values of any condition."""
    return max(map(_values, _conditions(filter)), default=0)


def _values(condition: Any) -> int:
    if isinstance(condition, models.Filter):
        return largest(condition)
    if isinstance(condition, models.NestedCondition):
        return largest(condition.nested.filter)
    if isinstance(condition, models.HasIdCondition):
        return len(condition.has_id)
    match = getattr(condition, "match", None)
    values = match.any if isinstance(match, models.MatchAny) else getattr(match, "except_", None)
    return len(values) if isinstance(values, list) else 0


def _search_cost(request: models.QueryRequest | models.Prefetch) -> int:
    prefetches = request.prefetch or []
    below: Iterable[Any] = prefetches if isinstance(prefetches, list) else [prefetches]
    compared = 1
    if isinstance(request.query, models.SparseVector):
        compared = math.ceil(len(request.query.indices) / _TERMS)
    elif isinstance(request.query, list) and request.query and isinstance(request.query[0], list):
        compared = len(request.query)
    return compared + conditions_of(request.filter) + sum(map(_search_cost, below))
